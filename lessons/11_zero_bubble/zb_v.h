#pragma once

#include <algorithm>
#include <array>

#include "lessons/11_zero_bubble/zero_bubble.h"

namespace lockstep {

// clang-format off: it would break the lines of the diagram
/// ZB-V (Qi et al. 2023, section 6, and Qi et al. 2024, "Pipeline Parallelism with Controllable
/// Memory"): no bubble within a rank's window, with the memory of 1F1B. Each rank holds two chunks,
/// and the model goes down the ranks and up again, in the shape of a V: rank 0 holds the first
/// stage and the last. The last rank turns a microbatch around without a message, and so does rank
/// 0 when its backward begins. p = 3, m = 5; small letters are the second chunk, on the way up:
///
///     rank 0   F0 F1 F2 F3 F4 f0 i0 w0 f1 i1 w1 f2 i2 w2 I0 W0 f3 i3 w3 I1 W1 f4 i4 w4 I2 W2 ...
///     rank 1      F0 F1 F2 f0 F3 f1 i0 w0 f2 i1 w1 F4 I0 W0 f3 i2 w2 I1 W1 f4 i3 w3 I2 i4 I3 ...
///     rank 2         F0 f0 F1 f1 F2 f2 i0 w0 F3 I0 W0 f3 i1 w1 F4 I1 W1 f4 i2 w2 I2 i3 I3 i4 ...
///
/// Every rank holds at most 2 p chunks of activations. A chunk is half of a stage of 1F1B, so this
/// is as much as rank 0 holds there, and all ranks hold the same. If T_F, T_I and T_W are equal, a
/// rank has no bubble within its window for m >= 2 p - 1. For other times, see the simulator.
// clang-format on
inline Schedule zb_v(int ranks, int microbatches) {
  Schedule schedule = empty_schedule("ZB-V", v_placement(ranks), microbatches);
  // Fewer microbatches use the order for 2 p - 1, without the microbatches that do not exist.
  const int m = std::max(microbatches, 2 * ranks - 1);
  constexpr Op F = Op::forward, I = Op::backward_input, W = Op::backward_weight;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    const std::array<int, 2> stages{rank, 2 * ranks - 1 - rank};
    std::array<std::array<int, 4>, 2> counts{};  // by chunk and Op: the next microbatch
    const auto next = [&](Op op, int chunk) -> int& {
      return counts[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(op)];
    };
    const auto run = [&](Op op, int chunk) {
      if (const int i = next(op, chunk)++; i < microbatches)
        actions.push_back({op, stages[static_cast<std::size_t>(chunk)], i});
    };
    const auto backward = [&](int chunk) { run(I, chunk), run(W, chunk); };

    // Warm-up: down, then alternately up and down, then up until the first gradients.
    for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) run(F, 0);
    for (int i = 0; i < rank; ++i) run(F, 1), run(F, 0);
    for (int i = 0; i < ranks - rank; ++i) run(F, 1), backward(1);
    // Steady state: one forward and one backward of each chunk in turn.
    while (next(F, 1) < m) {
      if (next(F, 0) < m) run(F, 0);
      backward(0);
      run(F, 1), backward(1);
    }
    // Cool-down: input gradients first, because other ranks wait for them; weight gradients last.
    for (int i = 0; i < rank; ++i) run(I, 0), run(I, 1);
    for (int i = 0; i < ranks - rank; ++i) backward(0);
    while (next(W, 1) < m) run(W, 1);
    while (next(W, 0) < m) run(W, 0);
  }
  return schedule;
}

}  // namespace lockstep
