#include "exercises/13_sequence_parallel/task.h"

namespace lockstep::exercises {

Buffer mlp_forward(World& world, const Mlp& block, Buffer x, Saved& saved) {
  // Delete these lines and write yours, here and below.
  (void)world, (void)block, (void)x, (void)saved;
  not_written();
}

Buffer mlp_backward(World& world, const Mlp& block, Buffer dy, Saved saved, Gradients& gradients) {
  (void)world, (void)block, (void)dy, (void)saved, (void)gradients;
  not_written();
}

}  // namespace lockstep::exercises
