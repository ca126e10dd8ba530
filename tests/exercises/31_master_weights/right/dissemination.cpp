#include "exercises/31_master_weights/task.h"

#include <algorithm>

// In round k, a rank tells the one 2^k further to the right what it knows: log N rounds.

namespace lockstep::exercises {

Mixed begin(std::span<const float> initial, float scale) {
  Mixed state{std::vector<Half>(initial.size()), {initial.begin(), initial.end()}, scale, 0};
  for (std::size_t i = 0; i < initial.size(); ++i) state.weights[i] = to_half(initial[i]);
  return state;
}
bool step(World& world, Mixed& state, std::span<const Half> gradients, int growth_interval,
          const Update& update) {
  std::vector<float> g(gradients.size());
  std::ranges::transform(gradients, g.begin(), [](Half h) { return to_float(h); });
  // An infinity or a NaN times 0 is NaN.
  float bad = 0;
  for (const float each : g)
    if (each * 0 != 0) bad = 1;
  for (int k = 1; k < world.size(); k *= 2) {
    float other = 0;
    Work in = world.receive({&other, 1}, (world.rank() + world.size() - k) % world.size());
    Work out = world.send({&bad, 1}, (world.rank() + k) % world.size());
    in.wait();
    out.wait();
    bad += other;
  }
  if (bad > 0) {
    state.scale *= 0.5F;
    state.good_steps = 0;
    return false;
  }
  for (float& each : g) each /= state.scale;
  update(state.masters, g);
  std::ranges::transform(state.masters, state.weights.begin(), to_half);
  if (++state.good_steps == growth_interval) {
    state.good_steps = 0;
    state.scale += state.scale;
  }
  return true;
}

}  // namespace lockstep::exercises
