#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/pipeline/schedule.h"

/// Schedules with several stages per rank, which are valid by construction. Every stage runs its
/// backward passes in ascending order of microbatches, so the results of training with these
/// schedules are bitwise identical to those of one device.
namespace lockstep {

/// The backward passes that are split into I and W.
enum class Split { none, all, some };

/// GPipe, chunk by chunk: all forward passes run stage by stage, followed by all backward passes.
/// With `split`, a stage's weight gradients follow all of its input gradients.
inline Schedule chunk_by_chunk(std::vector<int> rank_of_stage, int microbatches,
                               bool split = false) {
  Schedule schedule = empty_schedule(split ? "chunk by chunk, split" : "chunk by chunk",
                                     std::move(rank_of_stage), microbatches);
  const auto add = [&](Op op, int stage) {
    const int rank = schedule.rank_of_stage[static_cast<std::size_t>(stage)];
    for (int i = 0; i < microbatches; ++i)
      schedule.actions[static_cast<std::size_t>(rank)].push_back({op, stage, i});
  };
  for (int stage = 0; stage < schedule.stages; ++stage) add(Op::forward, stage);
  for (int stage = schedule.stages - 1; stage >= 0; --stage) {
    add(split ? Op::backward_input : Op::backward, stage);
    if (split) add(Op::backward_weight, stage);
  }
  return schedule;
}

/// Returns a schedule in a random topological order of the dependencies. These are the data
/// dependencies and, on each stage, the ascending order of input gradients and of weight gradients
/// (B computes both). Forward passes need not run in ascending order.
inline Schedule random_ascending(std::mt19937& random, std::vector<int> rank_of_stage,
                                 int microbatches, Split split) {
  Schedule schedule = empty_schedule("random ascending", std::move(rank_of_stage), microbatches);
  const auto stages = static_cast<std::size_t>(schedule.stages);
  const auto pick = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>{0, count - 1}(random);
  };
  std::vector<std::vector<bool>> forwarded(stages, std::vector<bool>(std::size_t(microbatches)));
  auto splits = forwarded;
  for (auto& row : splits)
    for (auto&& each : row) each = split == Split::all || (split == Split::some && pick(2) == 1);
  std::vector<int> inputs(stages, 0), weights(stages, 0);  // gradients done, in ascending order

  while (true) {
    std::vector<Action> ready;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const int s = static_cast<int>(stage);
      for (std::size_t i = 0; i < std::size_t(microbatches); ++i)
        if (!forwarded[stage][i] && (stage == 0 || forwarded[stage - 1][i]))
          ready.push_back({Op::forward, s, static_cast<int>(i)});
      if (const int i = inputs[stage]; i < microbatches) {
        const bool halves = splits[stage][static_cast<std::size_t>(i)];
        if (forwarded[stage][static_cast<std::size_t>(i)] &&
            (stage + 1 == stages || inputs[stage + 1] > i) && (halves || weights[stage] == i))
          ready.push_back({halves ? Op::backward_input : Op::backward, s, i});
      }
      if (weights[stage] < inputs[stage]) ready.push_back({Op::backward_weight, s, weights[stage]});
    }
    if (ready.empty()) return schedule;
    const Action action = ready[pick(ready.size())];
    const auto stage = static_cast<std::size_t>(action.stage);
    schedule.actions[static_cast<std::size_t>(schedule.rank_of_stage[stage])].push_back(action);
    if (action.op == Op::forward)
      forwarded[stage][static_cast<std::size_t>(action.microbatch)] = true;
    if (action.op == Op::backward || action.op == Op::backward_input) ++inputs[stage];
    if (action.op == Op::backward || action.op == Op::backward_weight) ++weights[stage];
  }
}

}  // namespace lockstep
