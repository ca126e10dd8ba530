// diagnosis: divided by the number of ranks more than once
#include "exercises/25_find_scaling/task.h"

#include <cmath>

namespace lockstep::exercises {

namespace {

float norm_of(std::span<const float> numbers) {
  double sum = 0;
  for (const float each : numbers) sum += static_cast<double>(each) * static_cast<double>(each);
  return static_cast<float>(std::sqrt(sum));
}

}  // namespace

float train_step(World& world, const Settings& settings, const Microbatch& run_microbatch,
                 std::span<float> weights) {
  Buffer gradient = world.allocate(weights.size());
  const float share = 1 / static_cast<float>(settings.microbatches);
  for (int m = 0; m < settings.microbatches; ++m)
    run_microbatch(m, settings.loss_scale * share, gradient);

  all_reduce(world, gradient).wait();
  const float scale = 1 / (static_cast<float>(world.size() * world.size()) * settings.loss_scale);
  for (float& each : gradient.span()) each *= scale;

  const float norm = norm_of(gradient);
  const float clip = norm > settings.max_norm ? settings.max_norm / norm : 1;

  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] -= settings.learning_rate * clip * gradient[i];
  return norm;
}

}  // namespace lockstep::exercises
