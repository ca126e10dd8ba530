#include "exercises/22_global_norm/task.h"

namespace lockstep::exercises {

double clip_gradients(World& world, std::vector<Gradient>& gradients, double limit) {
  // Delete these lines and write yours.
  (void)world, (void)gradients, (void)limit;
  not_written();
}

}  // namespace lockstep::exercises
