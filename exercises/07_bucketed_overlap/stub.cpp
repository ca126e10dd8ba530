#include "exercises/07_bucketed_overlap/task.h"

namespace lockstep::exercises {

void backward_pass(World& world, const std::vector<int>& sizes, int bucket,
                   const Backward& backward, std::span<float> gradients) {
  // Delete these lines and write yours.
  (void)world, (void)sizes, (void)bucket, (void)backward, (void)gradients;
  not_written();
}

}  // namespace lockstep::exercises
