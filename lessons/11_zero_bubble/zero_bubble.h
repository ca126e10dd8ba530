#pragma once

#include <vector>

#include "core/pipeline/schedule.h"

namespace lockstep {

// Zero bubble (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): a backward pass is two actions.
//
//     I   Op::backward_input    dx = dy Wᵀ: the previous stage is waiting for it
//     W   Op::backward_weight   dW = xᵀ dy: nothing needs it before the optimizer step
//
// Gradients travel up the pipeline at the speed of I, and each rank puts off its W's until it would
// otherwise be idle. Layer::backward_input and Layer::backward_weight (core/model/layer.h) are the
// two halves. The schedules of this lesson differ in how many W's they put off: zb_h1.h, zb_h2.h,
// zb_v.h, dualpipe_v.h, and automatic.h, which searches for the order.

/// Inserts weight gradients (W) into a rank's order of forward passes (F) and input gradients (I).
/// The rank puts off `delay` weight gradients: once it has run more than `delay` I's, each I is
/// followed by the W that has waited longest, and the rest come at the end, where the rank would
/// otherwise be idle. W's run in the order of their I's, so that gradients are summed in the same
/// order as on one device.
///
/// A microbatch's activations are freed by its W. Each W that is put off therefore keeps one more
/// microbatch in memory.
inline std::vector<Action> place_weights(const std::vector<Action>& order, int delay) {
  std::vector<Action> placed, waiting;
  std::size_t next = 0;
  const auto place_next = [&] { placed.push_back(waiting[next++]); };
  for (const Action& action : order) {
    placed.push_back(action);
    if (action.op != Op::backward_input) continue;
    waiting.push_back({Op::backward_weight, action.stage, action.microbatch});
    if (waiting.size() > static_cast<std::size_t>(delay)) place_next();
  }
  while (next < waiting.size()) place_next();
  return placed;
}

}  // namespace lockstep
