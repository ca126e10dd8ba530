// Sums in f64, and sends them as two numbers in f32.
#include "exercises/22_global_norm/task.h"

#include <cmath>

namespace lockstep::exercises {

double clip_gradients(World& world, std::vector<Gradient>& gradients, double limit) {
  // Along tp, only the first rank's copy counts. Along dp, every copy may count, because nothing is
  // added along dp.
  double sum = 0;
  for (const Gradient& each : gradients)
    if (each.divided || world.coordinate(Axis::tp) == 0)
      for (const float number : each.numbers) sum += static_cast<double>(number) * number;

  World parts = world.along(Axis::tp), stages = world.along(Axis::pp);
  for (World* group : {&parts, &stages}) {
    const int n = group->size(), r = group->rank();
    std::vector<float> all(2 * static_cast<std::size_t>(n));
    all[2 * static_cast<std::size_t>(r)] = static_cast<float>(sum);
    all[2 * static_cast<std::size_t>(r) + 1] =
        static_cast<float>(sum - static_cast<double>(static_cast<float>(sum)));
    all_gather(*group, all).wait();
    sum = 0;
    for (const float each : all) sum += each;
  }

  const double norm = std::sqrt(sum);  // once: norms can't be added, their squares can
  if (norm > limit)
    for (Gradient& each : gradients)
      for (float& number : each.numbers) number *= static_cast<float>(limit / norm);
  return norm;
}

}  // namespace lockstep::exercises
