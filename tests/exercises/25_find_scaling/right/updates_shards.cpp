// Each rank updates its shard of the weights, as ZeRO does.
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
  reduce_scatter(world, gradient).wait();
  const std::span<float> shard = chunk(gradient.span(), world.rank(), world.size());
  const float scale = 1 / (static_cast<float>(world.size()) * settings.loss_scale);
  for (float& each : shard) each *= scale;

  // 3. Clip. The norm is that of the unscaled gradient.
  float squares = norm_of(shard) * norm_of(shard);
  all_reduce(world, {&squares, 1}).wait();
  const float norm = std::sqrt(squares);
  const float clip = norm > settings.max_norm ? settings.max_norm / norm : 1;

  // 4. Update.
  const std::span<float> own = chunk(weights, world.rank(), world.size());
  for (std::size_t i = 0; i < own.size(); ++i) own[i] -= settings.learning_rate * clip * shard[i];
  all_gather(world, weights).wait();
  return norm;
}

}  // namespace lockstep::exercises
