#include "exercises/31_master_weights/task.h"

namespace lockstep::exercises {

// Replace each not_written() by your answer.

Mixed begin(std::span<const float> initial, float scale) {
  (void)initial, (void)scale;
  not_written();
}

bool step(World& world, Mixed& state, std::span<const Half> gradients, int growth_interval,
          const Update& update) {
  (void)world, (void)state, (void)gradients, (void)growth_interval, (void)update;
  not_written();
}

}  // namespace lockstep::exercises
