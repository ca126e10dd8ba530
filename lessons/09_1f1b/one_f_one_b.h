#pragma once

#include <algorithm>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// 1F1B: one forward, one backward (Narayanan et al. 2019, "PipeDream"; with a flush after each
/// batch, so that all microbatches see the same weights: Narayanan et al. 2021, "Memory-Efficient
/// Pipeline-Parallel DNN Training", PipeDream-Flush). A microbatch is sent back as soon as it has
/// come through:
///
///     rank 0   F0 F1 F2             B0    F3 B1    F4 B2       B3       B4
///     rank 1      F0 F1       B0    F2 B1    F3 B2    F4 B3       B4
///     rank 2         F0 B0    F1 B1    F2 B2    F3 B3    F4 B4
///
/// What it gains is memory, not time: stage s remembers at most min(m, p - s) microbatches, where
/// GPipe remembers m. With free communication the bubble is GPipe's, (p - 1)/(m + p - 1) of the
/// whole time. Where messages take time it is often a little larger: in the steady state a backward
/// waits for a forward that waits for a backward, so that hops to the neighbour and back are paid
/// for again and again, where GPipe pays once. (On slow links it can also be smaller: gradients
/// leave as they are made instead of queueing at the end.)
/// Backwards run in ascending order. Throws ScheduleError for fewer than one stage or microbatch.
inline Schedule one_f_one_b(int stages, int microbatches) {
  Schedule schedule = one_stage_per_rank("1F1B", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    int forwards = 0;
    int backwards = 0;
    const auto forward = [&] { actions.push_back({Op::forward, stage, forwards++}); };
    const auto backward = [&] { actions.push_back({Op::backward, stage, backwards++}); };

    // Warm-up: as many forwards as there are stages after this one, to give each of them something
    // to do before the first gradient can come back.
    const int warm_up = std::min(microbatches, stages - 1 - stage);
    while (forwards < warm_up) forward();

    // Steady state: one forward, one backward. What is remembered no longer grows.
    while (forwards < microbatches) {
      forward();
      backward();
    }

    // Cool-down: the backwards of the microbatches that are still on their way.
    while (backwards < microbatches) backward();
  }
  return schedule;
}

}  // namespace lockstep
