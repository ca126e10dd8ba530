#pragma once

#include <algorithm>
#include <vector>

#include "lessons/11_zero_bubble/zero_bubble.h"

namespace lockstep {

/// ZB-H2 (Qi et al. 2023, section 2): twice the warm-up and twice the delay of ZB-H1. If T_F, T_I
/// and T_W are equal, no rank is idle between its first action and its last. p = 3, m = 5:
///
///     rank 0   F0 F1 F2 F3 F4 I0 W0 I1 W1 I2 W2 I3 W3 I4 W4
///     rank 1      F0 F1 F2 I0 F3 I1 F4 I2 W0 I3 W1 I4 W2 W3 W4
///     rank 2         F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 W1 W2 W3 W4
///
/// Rank 0 runs 2 p - 1 forward passes before its first gradient arrives, so it also holds 2 p - 1
/// microbatches. All ranks then have windows of the same length, and each starts one T_F after its
/// predecessor: the parallelogram. Its slanted ends are idle time only if the ranks wait for each
/// other between two steps. For m >= 2 p - 1, equal stages and free messages, rank 0 idles for
/// (p - 1)(T_F + T_I - 2 T_W) in its own window if this is positive.
inline Schedule zb_h2(int ranks, int microbatches) {
  Schedule schedule = one_stage_per_rank("ZB-H2", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action> order;
    int forwards = 0;
    const auto forward = [&] { order.push_back({Op::forward, rank, forwards++}); };

    const int warm_up = 2 * (ranks - 1 - rank) + 1;
    while (forwards < std::min(warm_up, microbatches)) forward();
    for (int i = 0; i < microbatches; ++i) {
      order.push_back({Op::backward_input, rank, i});
      if (forwards < microbatches) forward();
    }
    schedule.actions[static_cast<std::size_t>(rank)] = place_weights(order, 2 * rank);
  }
  return schedule;
}

}  // namespace lockstep
