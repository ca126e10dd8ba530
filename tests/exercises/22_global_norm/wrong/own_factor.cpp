// diagnosis: has a factor of its own
#include "exercises/22_global_norm/task.h"

#include <cmath>

namespace lockstep::exercises {

double clip_gradients(World& world, std::vector<Gradient>& gradients, double limit) {
  float squares = 0, own = 0;
  for (const Gradient& each : gradients)
    if (each.divided || world.coordinate(Axis::tp) == 0)
      for (const float number : each.numbers) squares += number * number;

  own = squares;
  World parts = world.along(Axis::tp), stages = world.along(Axis::pp);
  all_reduce(parts, {&squares, 1}).wait();
  all_reduce(stages, {&squares, 1}).wait();

  const double norm = std::sqrt(squares);
  if (norm > limit)
    for (Gradient& each : gradients)
      for (float& number : each.numbers) number *= static_cast<float>(limit / std::sqrt(own));
  return norm;
}

}  // namespace lockstep::exercises
