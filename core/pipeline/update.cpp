#include "core/pipeline/update.h"

#include <map>

#include "core/plan/gpt_parameters.h"

namespace lockstep {

PipelineUpdate::PipelineUpdate(Endpoint endpoint, const Group& group, Gpt& stage, AdamW& optimizer)
    : endpoint_(endpoint), stage_(stage), optimizer_(optimizer) {
  const int ends_channel = endpoint.transport.open_channels(Group::channels_taken);
  const int norm_channel = endpoint.transport.open_channels(Group::channels_taken);
  if (group.size() == 1) return;
  const int last = group.size() - 1;
  if (stage.config().tied && (group.rank() == 0 || group.rank() == last))
    ends_ = std::make_unique<Group>(
        endpoint, std::vector{group.world_rank(0), group.world_rank(last)}, "ends", ends_channel);
  if (optimizer.options().clip > 0) {
    std::vector<int> ranks;
    for (int i = 0; i <= last; ++i) ranks.push_back(group.world_rank(i));
    all_ = std::make_unique<Group>(endpoint, ranks, "norm", norm_channel);
  }
}

void PipelineUpdate::step() {
  if (ends_) {
    const int table = token_table_spec(stage_.config()).order;
    for (Parameter* parameter : stage_.parameters())
      if (parameter->order == table && !parameter->frozen)
        ends_->all_reduce(parameter->gradient).wait();
  }
  if (all_)
    optimizer_.step(optimizer_.clip_scale(global_norm()));
  else
    optimizer_.step();
}

// Each rank brings one double per tensor of the whole model, -1 where the tensor is not its own.
// They travel as pairs of f32, which are only copied.
double PipelineUpdate::global_norm() {
  const auto specs = gpt_parameters(stage_.config());
  std::map<int, std::size_t> place;
  for (std::size_t i = 0; i < specs.size(); ++i) place[specs[i].order] = i;

  std::vector<double> mine(specs.size(), -1.0);
  for (const auto& [order, square] : optimizer_.squares()) mine[place.at(order)] = square;
  const auto ranks = static_cast<std::int64_t>(all_->size());
  Tensor table{endpoint_.device.memory,
               {ranks, 2 * static_cast<std::int64_t>(specs.size())},
               MemoryCategory::communication};
  const auto row = [&](int rank) {
    return slice(table, rank * table.shape()[1], table.shape()[1]);
  };
  Stream& compute = endpoint_.device.compute;
  compute.write(mine.data(), row(all_->rank()));
  all_->all_gather(table).wait();

  std::map<int, double> squares;  // a tied table is on two ranks, and counts once
  for (int rank = 0; rank < all_->size(); ++rank) {
    compute.read(row(rank), mine.data());
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (mine[i] >= 0) squares.emplace(specs[i].order, mine[i]);
  }
  return gradient_norm({squares.begin(), squares.end()});
}

std::int64_t PipelineUpdate::tied_bytes(const GptConfig& config, int rank, int ranks) {
  if (!config.tied || ranks == 1 || (rank != 0 && rank != ranks - 1)) return 0;
  // A ring of two: each sends one half to be added and the sum of the other half.
  return static_cast<std::int64_t>(size_of(config.dtype)) * config.vocabulary * config.hidden;
}

std::int64_t PipelineUpdate::norm_bytes(const GptConfig& config, int ranks) {
  return static_cast<std::int64_t>(gpt_parameters(config).size() * sizeof(double)) * (ranks - 1);
}

}  // namespace lockstep
