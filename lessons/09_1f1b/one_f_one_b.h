#pragma once

#include <algorithm>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// 1F1B: one forward, one backward (Narayanan et al. 2019, "PipeDream"). This version flushes the
/// pipeline after each batch, so all microbatches see the same weights (Narayanan et al. 2021,
/// "Memory-Efficient Pipeline-Parallel DNN Training", PipeDream-Flush). A microbatch's backward
/// starts as soon as its forward has passed through all stages:
///
///     rank 0   F0 F1 F2             B0    F3 B1    F4 B2       B3       B4
///     rank 1      F0 F1       B0    F2 B1    F3 B2    F4 B3       B4
///     rank 2         F0 B0    F1 B1    F2 B2    F3 B3    F4 B4
///
/// 1F1B saves memory, not time: stage s stashes at most min(m, p - s) microbatches; GPipe stashes
/// all m. With free communication the bubble equals GPipe's, (p - 1)/(m + p - 1) of a step. If
/// messages take time, the bubble is often a little larger: in the steady state, a backward pass
/// waits for a forward pass that waits for a backward pass, so each round trip to the neighbour
/// costs time. In GPipe, the delay of messages occurs once. (On slow links 1F1B's bubble can also
/// be smaller, because gradients are sent as they are computed instead of queueing at the end.)
///
/// Backward passes run in ascending order. Throws ScheduleError for fewer than one stage or
/// microbatch.
inline Schedule one_f_one_b(int stages, int microbatches) {
  Schedule schedule = one_stage_per_rank("1F1B", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    int forwards = 0;
    int backwards = 0;
    const auto forward = [&] { actions.push_back({Op::forward, stage, forwards++}); };
    const auto backward = [&] { actions.push_back({Op::backward, stage, backwards++}); };

    // Warm-up: one forward for each stage after this one, so that all those stages have work before
    // the first gradient can return.
    const int warm_up = std::min(microbatches, stages - 1 - stage);
    while (forwards < warm_up) forward();

    // Steady state: one forward, one backward. The number of stashed microbatches no longer grows.
    while (forwards < microbatches) {
      forward();
      backward();
    }

    // Cool-down: the backward passes of the microbatches still in flight.
    while (backwards < microbatches) backward();
  }
  return schedule;
}

}  // namespace lockstep
