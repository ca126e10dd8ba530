#include "core/pipeline/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/pipeline/validate.h"

namespace lockstep {

namespace {

/// Returns `schedule` if it is valid and fits this group and number of models; throws otherwise.
const Schedule& checked(const Schedule& schedule, const Group& group, std::size_t models) {
  validate(schedule);
  if (group.size() != schedule.ranks)
    throw std::invalid_argument(
        fmt::format("a schedule of {} ranks for a group of {}", schedule.ranks, group.size()));
  const auto here = std::ranges::count(schedule.rank_of_stage, group.rank());
  if (here == 0 || static_cast<std::size_t>(here) != models)
    throw std::invalid_argument(
        fmt::format("{} models for the {} stages of pipeline rank {}; the executor needs one for "
                    "each, and at least one",
                    models, here, group.rank()));
  return schedule;
}

}  // namespace

PipelineExecutor::PipelineExecutor(Endpoint endpoint, const Group& group, const Schedule& schedule,
                                   std::vector<Gpt*> stages, Boundary boundary)
    : endpoint_(endpoint),
      schedule_(checked(schedule, group, stages.size())),
      rank_(group.rank()),
      boundary_(boundary),
      messages_(endpoint, group, schedule_, boundary),
      losses_(endpoint.device, static_cast<std::size_t>(schedule.microbatches)) {
  auto next = stages.begin();
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] == rank_)
      stages_[stage].model = *next++;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(rank_)])
    if (action.op == Op::backward || action.op == Op::backward_weight)
      stages_.at(action.stage).last = action.microbatch;
}

void PipelineExecutor::check(const Batch& batch) const {
  if (static_cast<int>(batch.microbatches.size()) != schedule_.microbatches)
    throw std::invalid_argument(fmt::format("a batch of {} microbatches for a schedule of {}",
                                            batch.microbatches.size(), schedule_.microbatches));
  for (const Microbatch& microbatch : batch.microbatches) {
    const Shape& tokens = microbatch.tokens.shape;
    const Shape& shape = boundary_.shape;
    if (shape.rank() != 3 || tokens.rank() != 2 || tokens[0] != shape[0] ||
        tokens[1] != shape[1] * boundary_.token_parts)
      throw std::invalid_argument(
          fmt::format("microbatches of ({}, {}) tokens for a boundary of ({}, {}, {})", tokens[0],
                      tokens[1], shape[0], shape[1], shape[2]));
  }
}

std::optional<BatchLoss> PipelineExecutor::step(const Batch& batch) {
  check(batch);
  const auto& actions = schedule_.actions[static_cast<std::size_t>(rank_)];
  Device device = endpoint_.device;
  messages_.begin();

  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::size_t first = i, last = actions[i].with_next ? ++i : i;  // a joined pair, or one
    std::array<Tensor, 2> data;
    for (std::size_t k = first; k <= last; ++k) data[k - first] = messages_.before(k);
    const Picoseconds start = device.compute.now();
    if (first == 0) ran_ = {.first = start};
    for (std::size_t k = first; k <= last; ++k)
      data[k - first] = run_traced(actions[k], std::move(data[k - first]), batch);
    ran_.last = device.compute.now();
    ran_.busy += ran_.last - start;
    for (std::size_t k = first; k <= last; ++k) messages_.after(k, std::move(data[k - first]));
    record_memory(device);
  }

  messages_.end();
  if (!stages_.contains(schedule_.stages - 1)) return {};
  return losses_.total();
}

Tensor PipelineExecutor::run_traced(const Action& action, Tensor input, const Batch& batch) {
  return endpoint_.device.compute.range({.name = "action",
                                         .category = category(action.op),
                                         .stage = action.stage,
                                         .microbatch = action.microbatch},
                                        [&] { return run(action, std::move(input), batch); });
}

Tensor PipelineExecutor::run(const Action& action, Tensor input, const Batch& batch) {
  const Stage& stage = stages_.at(action.stage);
  const auto index = static_cast<std::size_t>(action.microbatch);
  const std::pair key{action.stage, action.microbatch};
  Tensor output;
  switch (action.op) {
    case Op::forward: {
      Microbatch microbatch = batch.microbatches[index];
      microbatch.last = action.microbatch == stage.last;
      output = stage.model->forward(microbatch, std::move(input), stashes_[key]);
      if (action.stage == schedule_.stages - 1) losses_.take(index, *stage.model, stashes_[key]);
      return output;
    }
    case Op::backward:
      output = stage.model->backward(std::move(input), stashes_.at(key));
      stashes_.erase(key);
      return output;
    case Op::backward_input:
      return stage.model->backward_input(std::move(input), stashes_.at(key));
    case Op::backward_weight:
      stage.model->backward_weight(stashes_.at(key));
      stashes_.erase(key);
      return output;
  }
  return output;
}

}  // namespace lockstep
