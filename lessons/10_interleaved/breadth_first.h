#pragma once

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Looped breadth-first pipelines (Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism"): the
/// placement is that of interleaved 1F1B, but each rank runs all m microbatches through one chunk
/// before it turns to the next. This is GPipe, chunk by chunk. p = 2, v = 2, m = 4:
///
///     rank 0   F0 F1 F2 F3 f0 f1 f2 f3          b0    b1    b2    b3    B0    B1    B2    B3
///     rank 1      F0 F1 F2 F3 f0 f1 f2 f3 b0    b1    b2    b3    B0    B1    B2    B3
///
/// For m >= p the bubble is that of interleaved 1F1B, but a rank holds the activations of all m
/// microbatches in all its chunks. In return, it uses the parameters of one chunk at a time: with
/// ZeRO-3, it gathers each chunk twice per step instead of once per group of p microbatches, and a
/// chunk's gradients can be reduced while the next chunk runs backward.
///
/// The paper, like PyTorch, runs backward passes in descending order. Here they ascend, as in every
/// schedule, so that gradients are always summed in the same order. Throws ScheduleError for fewer
/// than one rank, chunk or microbatch.
inline Schedule looped_breadth_first(int ranks, int chunks, int microbatches) {
  Schedule schedule =
      empty_schedule("looped breadth-first", loop_placement(ranks, ranks * chunks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = 0; i < microbatches; ++i)
        actions.push_back({Op::forward, chunk * ranks + rank, i});
    for (int chunk = chunks - 1; chunk >= 0; --chunk)
      for (int i = 0; i < microbatches; ++i)
        actions.push_back({Op::backward, chunk * ranks + rank, i});
  }
  return schedule;
}

}  // namespace lockstep
