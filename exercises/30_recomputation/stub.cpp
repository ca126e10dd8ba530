#include "exercises/30_recomputation/task.h"

namespace lockstep::exercises {

Buffer train_step(World& world, const Chain& chain, int k, Buffer x, Random& random) {
  // Delete these lines and write yours.
  (void)world, (void)chain, (void)k, (void)x, (void)random;
  not_written();
}

}  // namespace lockstep::exercises
