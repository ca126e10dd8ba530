#include "core/pipeline/update.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/model/ops.h"
#include "core/plan/ranks_of_model.h"

namespace lockstep {

namespace {

/// Returns whether a tied head's table is trained and the first and last stage each hold a copy.
bool has_two_tables(const Plan& plan) {
  return plan.model().tied && !plan.model().is_frozen(0) && plan.stages() > 1;
}

/// A double is sent as two f32 numbers with the same bits; they are only copied.
constexpr std::int64_t floats_per_square = sizeof(double) / sizeof(float);
/// Marks a tensor that a rank does not hold. (A sum of squares may be NaN, but not negative.)
constexpr double absent = -1;

/// Returns the number of elements of the token table on one of the ranks at the ends.
std::int64_t table_elements(const Plan& plan, const Place& place) {
  for (const Held& held : place.held)
    if (plan.parameters()[static_cast<std::size_t>(held.parameter)].order == token_table_order)
      return held.slice.local().elements();
  return 0;
}

}  // namespace

PipelineUpdate::PipelineUpdate(Endpoint endpoint, const Group& pipeline, const Plan& plan,
                               std::vector<Gpt*> stages, AdamW& optimizer, int shards)
    : endpoint_(endpoint), plan_(plan), optimizer_(optimizer) {
  const int rank = pipeline.rank();
  const std::vector<int>& rank_of_stage = plan.rank_of_stage;
  const auto here = std::ranges::count(rank_of_stage, rank);
  if (here == 0 || static_cast<std::size_t>(here) != stages.size())
    throw std::invalid_argument(
        fmt::format("{} models for the {} stages of pipeline rank {}; the update needs one for "
                    "each, and at least one",
                    stages.size(), here, rank));
  const int ends_channel = endpoint.transport.open_channels(Group::channels_taken);
  const int norm_channel = endpoint.transport.open_channels(Group::channels_taken);

  const int first = rank_of_stage.front();
  const int last = rank_of_stage.back();
  if (has_two_tables(plan)) {
    std::vector<Parameter*> tables;  // by stage
    for (Parameter* parameter : optimizer.parameters())
      if (parameter->order == token_table_order) tables.push_back(parameter);
    if (rank == first && !tables.empty()) first_table_ = tables.front();
    if (rank == last && !tables.empty()) last_table_ = tables.back();
    if (first != last && !tables.empty())
      ends_ = std::make_unique<Group>(
          endpoint, std::vector{pipeline.world_rank(first), pipeline.world_rank(last)}, "ends",
          ends_channel);
  }
  if (optimizer.options().clip <= 0) return;
  const std::vector<int> ranks = ranks_of_model(plan, endpoint.transport.rank(), shards);
  if (ranks.size() > 1) all_ = std::make_unique<Group>(endpoint, ranks, "norm", norm_channel);
}

void PipelineUpdate::step() {
  add_tied_gradients();
  const bool table_is_here_twice = first_table_ != nullptr && last_table_ != nullptr;
  if (optimizer_.options().clip > 0 && (all_ || table_is_here_twice))
    optimizer_.step(optimizer_.clip_scale(global_norm()));
  else
    optimizer_.step();
}

void PipelineUpdate::add_tied_gradients() {
  if (ends_) {
    ends_->all_reduce((first_table_ != nullptr ? first_table_ : last_table_)->gradient).wait();
  } else if (first_table_ != nullptr && last_table_ != nullptr) {
    const View sum = first_table_->gradient, other = last_table_->gradient;
    Ops{endpoint_.device, -1}.add(sum, other, sum);
    const double bytes = static_cast<double>(sum.bytes() + other.bytes());
    endpoint_.device.compute.launch(Span{.name = "copy", .category = Category::kernel},
                                    Cost{.bytes = bytes},
                                    [&](const Kernels& k, Queue q) { k.copy(q, sum, other); });
  }
}

double PipelineUpdate::global_norm() {
  std::map<int, double> squares;  // by parameter order, so that a tied table counts once
  if (all_)
    squares = gathered_squares();
  else
    for (const auto& [order, square] : optimizer_.squares()) squares.emplace(order, square);
  return gradient_norm({squares.begin(), squares.end()});
}

// Ranks that differ only in their coordinate on an axis that does not cut the parameter have the
// same gradient.
bool PipelineUpdate::counts(const ParameterSpec& spec) const {
  if (spec.order == token_table_order && last_table_ != nullptr && first_table_ == nullptr)
    return false;
  return is_first_holder(plan_, spec, endpoint_.transport.rank());
}

// Each rank contributes one row, with one double for each tensor of the whole model.
std::map<int, double> PipelineUpdate::gathered_squares() {
  const std::vector<ParameterSpec>& specs = plan_.parameters();
  std::map<int, std::size_t> place;
  for (std::size_t i = 0; i < specs.size(); ++i) place[specs[i].order] = i;

  std::vector<double> mine(specs.size(), absent);
  for (const auto& [order, square] : optimizer_.squares())
    if (const std::size_t i = place.at(order); counts(specs[i])) mine[i] = square;
  const auto ranks = static_cast<std::int64_t>(all_->size());
  Tensor table{endpoint_.device.memory,
               {ranks, floats_per_square * static_cast<std::int64_t>(specs.size())},
               MemoryCategory::communication,
               DType::f32,
               "sums of squares"};
  const auto row = [&](int rank) {
    return slice(table, rank * table.shape()[1], table.shape()[1]);
  };
  Stream& compute = endpoint_.device.compute;
  compute.write(mine.data(), row(all_->rank()));
  all_->all_gather(table).wait();

  std::vector<double> rows(static_cast<std::size_t>(ranks) * specs.size());
  compute.read(table, rows.data());
  std::map<int, double> squares;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank)
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (const double square = rows[rank * specs.size() + i]; square != absent)
        squares[specs[i].order] += square;
  return squares;
}

// The tied gradients and the norm are exchanged one after the other, so the peak is the larger of
// the two.
UpdateMessages update_messages(const Plan& plan, const Place& place) {
  UpdateMessages messages;
  const int rank = place.coordinate(Axis::pp);
  const bool ours = plan.collectives == Collectives::built_in;
  const int first = plan.rank_of_stage.front(), last = plan.rank_of_stage.back();
  if (has_two_tables(plan) && first != last && (rank == first || rank == last) && ours) {
    // In a ring of two, each rank sends one half before it is reduced, and the other half after it
    // is reduced.
    const auto width = static_cast<std::int64_t>(size_of(plan.model().dtype));
    const std::int64_t elements = table_elements(plan, place);
    messages.bytes_sent[Operation::all_reduce] = width * elements;
    messages.peak_bytes =
        width * all_reduce_scratch(Algorithm::ring, elements, 2, plan.receives_combine);
  }
  const auto ranks =
      static_cast<std::int64_t>(ranks_of_model(plan, place.rank, /*shards=*/1).size());
  if (plan.optimizer.clip > 0 && ranks > 1) {
    const auto row = static_cast<std::int64_t>(plan.parameters().size() * sizeof(double));
    if (ours) messages.bytes_sent[Operation::all_gather] = row * (ranks - 1);
    messages.peak_bytes = std::max(messages.peak_bytes, row * ranks);
  }
  return messages;
}

}  // namespace lockstep
