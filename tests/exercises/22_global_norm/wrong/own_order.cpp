// diagnosis: in the same order on each rank
#include "exercises/22_global_norm/task.h"

#include <cmath>

namespace lockstep::exercises {

double clip_gradients(World& world, std::vector<Gradient>& gradients, double limit) {
  // Along tp, only the first rank's copy counts. Along dp, every copy may count, because nothing is
  // added along dp.
  float squares = 0;
  for (const Gradient& each : gradients)
    if (each.divided || world.coordinate(Axis::tp) == 0)
      for (const float number : each.numbers) squares += number * number;

  World parts = world.along(Axis::tp), stages = world.along(Axis::pp);
  for (World* group : {&parts, &stages}) {
    const int n = group->size(), r = group->rank();
    std::vector<float> all(static_cast<std::size_t>(n));
    all[static_cast<std::size_t>(r)] = squares;
    all_gather(*group, all).wait();
    squares = 0;
    for (int i = 0; i < n; ++i) squares += all[static_cast<std::size_t>((r + i) % n)];
  }

  const double norm = std::sqrt(squares);  // once: norms can't be added, their squares can
  if (norm > limit)
    for (Gradient& each : gradients)
      for (float& number : each.numbers) number *= static_cast<float>(limit / norm);
  return norm;
}

}  // namespace lockstep::exercises
