// diagnosis: divide by the scale in f32
#include "exercises/31_master_weights/task.h"

#include <cmath>

namespace lockstep::exercises {

Mixed begin(std::span<const float> initial, float scale) {
  Mixed state;
  state.masters.assign(initial.begin(), initial.end());
  for (const float each : initial) state.weights.push_back(to_half(each));
  state.scale = scale;
  return state;
}

bool step(World& world, Mixed& state, std::span<const Half> gradients, int growth_interval,
          const Update& update) {
  std::vector<float> unscaled;
  float overflows = 0;
  for (const Half each : gradients) {
    unscaled.push_back(
        to_float(to_half(to_float(each) / state.scale)));  // exact: the scale is a power of two
    if (!std::isfinite(unscaled.back())) overflows = 1;
  }
  // An overflow on one rank is all ranks' overflow: they take the step together, or not at all.
  all_reduce(world, {&overflows, 1}).wait();
  if (overflows > 0) {
    state.scale /= 2;
    state.good_steps = 0;
    return false;
  }

  update(state.masters, unscaled);
  for (std::size_t i = 0; i < unscaled.size(); ++i) state.weights[i] = to_half(state.masters[i]);
  if (++state.good_steps == growth_interval) {
    state.scale *= 2;
    state.good_steps = 0;
  }
  return true;
}

}  // namespace lockstep::exercises
