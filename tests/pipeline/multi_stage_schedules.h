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

/// Places stage s on rank s mod p, as in interleaved 1F1B.
inline std::vector<int> loop_placement(int ranks, int stages) {
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < stages; ++stage) rank_of_stage.push_back(stage % ranks);
  return rank_of_stage;
}

/// Places 2 p stages down the ranks and up again, as in ZB-V: the first and the last share rank 0.
inline std::vector<int> v_placement(int ranks) {
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < 2 * ranks; ++stage)
    rank_of_stage.push_back(std::min(stage, 2 * ranks - 1 - stage));
  return rank_of_stage;
}

/// The backward passes that are split into I and W.
enum class Split { none, all, some };

/// Returns a schedule with this placement and empty action lists. It has as many ranks as the
/// placement uses.
inline Schedule placed(std::string name, std::vector<int> rank_of_stage, int microbatches) {
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.ranks = 1 + *std::ranges::max_element(rank_of_stage);
  schedule.stages = static_cast<int>(rank_of_stage.size());
  schedule.microbatches = microbatches;
  schedule.rank_of_stage = std::move(rank_of_stage);
  schedule.actions.resize(static_cast<std::size_t>(schedule.ranks));
  return schedule;
}

/// GPipe, chunk by chunk: all forward passes run stage by stage, followed by all backward passes.
/// With `split`, a stage's weight gradients follow all of its input gradients.
inline Schedule chunk_by_chunk(std::vector<int> rank_of_stage, int microbatches,
                               bool split = false) {
  Schedule schedule = placed(split ? "chunk by chunk, split" : "chunk by chunk",
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
  Schedule schedule = placed("random ascending", std::move(rank_of_stage), microbatches);
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
