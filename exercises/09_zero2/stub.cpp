#include "exercises/09_zero2/task.h"

namespace lockstep::exercises {

void backward_pass(World& world, const std::vector<int>& sizes, const Backward& backward,
                   std::vector<Buffer>& shards) {
  // Delete these lines and write yours.
  (void)world, (void)sizes, (void)backward, (void)shards;
  not_written();
}

}  // namespace lockstep::exercises
