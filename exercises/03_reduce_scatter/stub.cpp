#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  // Delete these lines and write yours.
  (void)world, (void)data;
  not_written();
}

}  // namespace lockstep::exercises
