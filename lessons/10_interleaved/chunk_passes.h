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

}  // namespace lockstep
