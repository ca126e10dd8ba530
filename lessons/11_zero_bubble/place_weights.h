#pragma once

#include <vector>

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Places the weight gradients (W) into a rank's order of forward passes (F) and input gradients
/// (I), which has none. The rank puts off `delay` weight gradients: once it has run more than
/// `delay` I's, each I is followed by the W that has waited longest, and the rest come at the end,
/// where the rank would otherwise be idle. W's run in the order of their I's, so that gradients are
/// summed in the same order as on one device.
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
