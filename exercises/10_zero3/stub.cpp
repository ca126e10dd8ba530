#include "exercises/10_zero3/task.h"

namespace lockstep::exercises {

void forward_pass(World& world, const std::vector<int>& sizes, const std::vector<Buffer>& shards,
                  const Forward& forward) {
  // Delete these lines and write yours.
  (void)world, (void)sizes, (void)shards, (void)forward;
  not_written();
}

}  // namespace lockstep::exercises
