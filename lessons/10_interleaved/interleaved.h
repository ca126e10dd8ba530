#pragma once

#include <algorithm>
#include <vector>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Returns the sizes of the groups in which microbatches advance: as many groups as p fits into m,
/// but at least one, of sizes that differ by at most 1, the larger ones first. If p divides m,
/// every group has p microbatches.
inline std::vector<int> microbatch_groups(int ranks, int microbatches) {
  const int groups = std::max(1, microbatches / ranks);
  std::vector<int> sizes(static_cast<std::size_t>(groups), microbatches / groups);
  for (int i = 0; i < microbatches % groups; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

/// One pass, forward or backward, of a microbatch through one of a rank's v chunks.
struct ChunkPass {
  int chunk = 0;  ///< counted from the chunk that the rank runs first in that direction
  int microbatch = 0;
};

/// Returns a rank's v m passes of one direction, in order. A group of microbatches passes through
/// the rank's first chunk, then through its second, and so on; then the next group follows.
inline std::vector<ChunkPass> chunk_passes(int ranks, int chunks, int microbatches) {
  std::vector<ChunkPass> passes;
  int first = 0;
  for (const int size : microbatch_groups(ranks, microbatches)) {
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = 0; i < size; ++i) passes.push_back({chunk, first + i});
    first += size;
  }
  return passes;
}

/// Returns the actions of one rank: `warm_up` forward passes, then one forward and one backward in
/// turn, then the remaining backward passes. The rank's chunk c is stage c p + rank; backward
/// passes start with its last chunk. `backward` is B or, for schedules that add W later, I.
inline std::vector<Action> alternating_order(int rank, int ranks, int chunks, int microbatches,
                                             int warm_up, Op backward = Op::backward) {
  const std::vector<ChunkPass> passes = chunk_passes(ranks, chunks, microbatches);
  std::vector<Action> actions;
  std::size_t forwards = 0, backwards = 0;
  const auto run_forward = [&] {
    const auto [chunk, microbatch] = passes[forwards++];
    actions.push_back({Op::forward, chunk * ranks + rank, microbatch});
  };
  const auto run_backward = [&] {
    const auto [chunk, microbatch] = passes[backwards++];
    actions.push_back({backward, (chunks - 1 - chunk) * ranks + rank, microbatch});
  };

  while (forwards < std::min(static_cast<std::size_t>(warm_up), passes.size())) run_forward();
  while (forwards < passes.size()) {
    run_forward();
    run_backward();
  }
  while (backwards < passes.size()) run_backward();
  return actions;
}

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
