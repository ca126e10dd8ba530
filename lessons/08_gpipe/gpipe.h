#pragma once

#include "core/pipeline/schedule.h"

namespace lockstep {

/// GPipe (Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline
/// Parallelism"): the batch is cut into m microbatches, so p stages, one per rank, can work on
/// different microbatches at the same time. All forward passes run first, then all backward passes:
///
///     rank 0   F0 F1 F2 F3 F4                   B0    B1    B2    B3    B4
///     rank 1      F0 F1 F2 F3 F4          B0    B1    B2    B3    B4
///     rank 2         F0 F1 F2 F3 F4 B0    B1    B2    B3    B4
///
/// Cost: each rank idles for (p - 1)(T_F + T_B) while the pipeline fills and drains. With free
/// communication, this is (p - 1)/(m + p - 1) of the step's time, so more microbatches mean a
/// smaller bubble. But every rank holds the activations of all m microbatches until the first
/// backward pass.
///
/// Backward passes run in ascending order, as in every schedule here, so gradients are always
/// summed in the same order, and the results of all schedules are bitwise identical. (The paper's
/// figure shows the backward passes in descending order; the time is the same.) Throws
/// ScheduleError for fewer than one stage or microbatch.
inline Schedule gpipe(int stages, int microbatches) {
  Schedule schedule = one_stage_per_rank("GPipe", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    for (int i = 0; i < microbatches; ++i) actions.push_back({Op::forward, stage, i});
    for (int i = 0; i < microbatches; ++i) actions.push_back({Op::backward, stage, i});
  }
  return schedule;
}

/// The idle share of all ranks' time, for equal stages and free communication: (p - 1)/(m + p - 1)
/// of the *whole* time. (Papers also quote (p - 1)/m, which is relative to the ideal time.)
inline double gpipe_bubble(int stages, int microbatches) {
  return static_cast<double>(stages - 1) / (microbatches + stages - 1);
}

}  // namespace lockstep
