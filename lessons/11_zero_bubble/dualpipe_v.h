#pragma once

#include <array>
#include <deque>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// DualPipeV (the V-shaped half of DualPipe, DeepSeek-AI 2024, "DeepSeek-V3 Technical Report",
/// section 3.2.1): in the steady state, every action of a rank is a forward of one chunk joined
/// with a backward of the other. The two are independent of each other, so that one can compute
/// while the other communicates within its layers. The placement is that of ZB-V. Needs m >= 2 p.
///
/// Only the warm-up and the end split backward passes into I and W. For T_F = T_I = T_W, and if a
/// joint action takes as long as its two parts, a rank idles for (p - 1)(F&B + B - 3 W) in the
/// whole step, F&B, B and W being the times of one chunk. A rank holds at most 2 p + 1 chunks'
/// activations. (other_schedules.md derives both.)
inline Schedule dualpipe_v(int ranks, int microbatches) {
  Schedule schedule = empty_schedule("DualPipeV", v_placement(ranks), microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    const std::array<int, 2> stages{rank, 2 * ranks - 1 - rank};
    std::array<int, 2> forwards{}, backwards{};  // by chunk
    std::deque<Action> waiting;                  // weight gradients
    const auto forward = [&](std::size_t chunk) {
      actions.push_back({Op::forward, stages[chunk], forwards[chunk]++});
    };
    const auto backward = [&](std::size_t chunk, bool split = false) {
      const int i = backwards[chunk]++;
      actions.push_back({split ? Op::backward_input : Op::backward, stages[chunk], i});
      if (split) waiting.push_back({Op::backward_weight, stages[chunk], i});
    };
    const auto weight = [&] {
      if (waiting.empty()) return;
      actions.push_back(waiting.front());
      waiting.pop_front();
    };
    const auto joint = [&](std::size_t forward_chunk, std::size_t backward_chunk) {
      forward(forward_chunk);
      actions.back().with_next = true;
      backward(backward_chunk);
    };

    const int later = ranks - 1 - rank;  // ranks further down
    for (int i = 0; i < 2 * later; ++i) forward(0);
    for (int i = 0; i <= rank; ++i) forward(0), forward(1);
    for (int i = 0; i < later; ++i) backward(1, true), weight(), forward(1);
    for (int i = 0; i < microbatches - 2 * ranks + rank + 1; ++i) {
      if (i == 0 && later == 0)  // the last rank's first pair is shorter if it is not joined
        forward(0), backward(1);
      else
        joint(0, 1);
      joint(1, 0);
    }
    for (int i = 0; i < later; ++i) backward(1), joint(1, 0);
    // The end: the second half of the remaining backward passes is split, and W's fill the gaps.
    bool split = false;
    for (int i = 0; i <= rank; ++i) {
      const bool middle = i == (rank + 1) / 2;
      split = split || (middle && rank % 2 == 1);
      backward(1, split);
      split = split || middle;
      backward(0, split);
    }
    for (int i = 0; i < later; ++i) weight(), backward(0, split);
    while (!waiting.empty()) weight();
  }
  return schedule;
}

}  // namespace lockstep
