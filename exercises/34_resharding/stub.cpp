#include "exercises/34_resharding/task.h"

namespace lockstep::exercises {

Buffer reshard(World& world, std::size_t P, int N, int M, Buffer old) {
  // Delete these lines and write yours.
  (void)world, (void)P, (void)N, (void)M, (void)old;
  not_written();
}

}  // namespace lockstep::exercises
