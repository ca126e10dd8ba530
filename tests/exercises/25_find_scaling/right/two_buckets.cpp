// Two all-reduces, each of half of the gradient.
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
  // 1. The mean of the scaled loss over this rank's microbatches: each adds its share.
  Buffer gradient = world.allocate(weights.size());
  const float share = 1 / static_cast<float>(settings.microbatches);
  for (int m = 0; m < settings.microbatches; ++m)
    run_microbatch(m, settings.loss_scale * share, gradient);

  // 2. The mean over the ranks. The mean over the microbatches has been taken, so only the division
  //    by N is left; and the loss scale is removed.
  Work first = all_reduce(world, chunk(gradient.span(), 0, 2));
  all_reduce(world, chunk(gradient.span(), 1, 2)).wait();
  first.wait();
  const float scale = 1 / (static_cast<float>(world.size()) * settings.loss_scale);
  for (float& each : gradient.span()) each *= scale;

  // 3. Clip. The norm is that of the unscaled gradient.
  const float norm = norm_of(gradient);
  const float clip = norm > settings.max_norm ? settings.max_norm / norm : 1;

  // 4. Update.
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] -= settings.learning_rate * clip * gradient[i];
  return norm;
}

}  // namespace lockstep::exercises
