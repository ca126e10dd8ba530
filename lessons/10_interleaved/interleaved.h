#pragma once

#include <vector>

#include "lessons/10_interleaved/chunk_passes.h"

namespace lockstep {

/// Returns the actions of one rank in interleaved 1F1B. The last rank can start its first backward
/// pass once the first group has passed through all chunks but the last, (v - 1) groups' forward
/// passes. Each rank before it has two forward passes more: one because its neighbour starts one
/// forward pass later, and one because the gradient reaches it one backward pass later.
inline std::vector<Action> interleaved_order(int rank, int ranks, int chunks, int microbatches) {
  const int group = microbatch_groups(ranks, microbatches).front();
  const int warm_up = (chunks - 1) * group + 2 * (ranks - 1 - rank);
  return alternating_order(rank, ranks, chunks, microbatches, warm_up);
}

/// Interleaved 1F1B (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU
/// Clusters Using Megatron-LM", section 2.2): the model is cut into v p stages, and each rank holds
/// v of them, its **chunks**, which lie p stages apart. A microbatch goes around the ranks v times.
/// p = 2, v = 2, m = 4; the digits are microbatches, and small letters mark the second chunk:
///
///     rank 0   F0 F1 f0 f1 F2    b0    F3 b1    f2 B0    f3 B1       b2       b3    B2    B3
///     rank 1      F0 F1 f0 b0    f1 b1    F2 B0    F3 B1    f2 b2    f3 b3    B2    B3
///
/// A stage is v times smaller than in 1F1B, so the pipeline fills and drains in steps that are v
/// times shorter: with free communication each rank idles for (p - 1)(T_F + T_B)/v. The price is v
/// times as many messages, and more activations: rank 0 holds up to (v - 1) p + 2 (p - 1) + 1
/// chunks' worth, 1 + (p - 1)/(p v) times what 1F1B holds.
///
/// Backward passes of each stage run in ascending order. Throws ScheduleError for fewer than one
/// rank, chunk or microbatch.
inline Schedule interleaved_1f1b(int ranks, int chunks, int microbatches) {
  Schedule schedule =
      empty_schedule("interleaved 1F1B", loop_placement(ranks, ranks * chunks), microbatches);
  for (int rank = 0; rank < ranks; ++rank)
    schedule.actions[static_cast<std::size_t>(rank)] =
        interleaved_order(rank, ranks, chunks, microbatches);
  return schedule;
}

}  // namespace lockstep
