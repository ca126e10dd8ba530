#pragma once

#include "lessons/10_interleaved/chunk_passes.h"
#include "lessons/11_zero_bubble/zero_bubble.h"

namespace lockstep {

/// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2): 1F1B whose backward pass
/// is split into I, the gradient of the stage's input, and W, the gradients of its weights. The
/// previous stage waits only for I. p = 3, m = 5:
///
///     rank 0   F0 F1 F2       I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4
///     rank 1      F0 F1    I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
///     rank 2         F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4
///
/// Gradients come back sooner, because they don't wait for W on the way. Rank q puts off q weight
/// gradients, and runs them at the end, while the last gradients travel up to rank 0. Every rank
/// holds at most min(m, p) microbatches, as rank 0 of 1F1B does. For m >= p, equal stages and free
/// messages, a rank idles for (p - 1)(T_F + T_I - T_W) in its own window, from its first start to
/// its last end.
///
/// With several chunks per rank, this is PyTorch's ZB1P: the order of interleaved 1F1B with half
/// the additional warm-up, and the weight gradients placed by the same rule.
inline Schedule zb_h1(int ranks, int chunks, int microbatches) {
  Schedule schedule = empty_schedule("ZB-H1", loop_placement(ranks, ranks * chunks), microbatches);
  const int group = microbatch_groups(ranks, microbatches).front();
  for (int rank = 0; rank < ranks; ++rank) {
    const int warm_up = (chunks - 1) * group + ranks - 1 - rank;
    const auto order =
        alternating_order(rank, ranks, chunks, microbatches, warm_up, Op::backward_input);
    schedule.actions[static_cast<std::size_t>(rank)] = place_weights(order, rank);
  }
  return schedule;
}

}  // namespace lockstep
