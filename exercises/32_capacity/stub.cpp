#include "exercises/32_capacity/task.h"

namespace lockstep::exercises {

Routing route(World& world, std::span<const float> probabilities, int E, int k,
              float capacity_factor) {
  // Delete these lines and write yours.
  (void)world, (void)probabilities, (void)E, (void)k, (void)capacity_factor;
  not_written();
}

}  // namespace lockstep::exercises
