// A sum for each gradient.
#include "exercises/22_global_norm/task.h"

#include <cmath>

namespace lockstep::exercises {

double clip_gradients(World& world, std::vector<Gradient>& gradients, double limit) {
  // Along tp, only the first rank's copy counts. Along dp, every copy may count, because nothing is
  // added along dp.
  std::vector<float> sums;
  for (const Gradient& each : gradients) {
    sums.push_back(0);
    if (each.divided || world.coordinate(Axis::tp) == 0)
      for (const float number : each.numbers) sums.back() += number * number;
  }

  World parts = world.along(Axis::tp), stages = world.along(Axis::pp);
  all_reduce(parts, sums).wait();
  all_reduce(stages, sums).wait();
  float squares = 0;
  for (const float each : sums) squares += each;

  const double norm = std::sqrt(squares);  // once: norms can't be added, their squares can
  if (norm > limit)
    for (Gradient& each : gradients)
      for (float& number : each.numbers) number *= static_cast<float>(limit / norm);
  return norm;
}

}  // namespace lockstep::exercises
