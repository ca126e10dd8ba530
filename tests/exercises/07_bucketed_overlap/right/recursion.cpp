#include "exercises/07_bucketed_overlap/task.h"

// Runs one layer, then all layers below it, and waits for the Works as the recursion returns.

namespace lockstep::exercises {

static void from(World& world, const std::vector<int>& sizes, int bucket, const Backward& backward,
                 std::span<float> left, std::size_t done, std::size_t layers) {
  if (layers == 0) return;
  const auto size = static_cast<std::size_t>(sizes[layers - 1]);
  const std::size_t begin = left.size() - done - size;
  backward(static_cast<int>(layers) - 1, left.subspan(begin, size));
  done += size;
  if (done >= static_cast<std::size_t>(bucket) || (layers == 1 && done > 0)) {
    Work work = all_reduce(world, left.last(done));
    from(world, sizes, bucket, backward, left.first(begin), 0, layers - 1);
    work.wait();
  } else {
    from(world, sizes, bucket, backward, left, done, layers - 1);
  }
}
void backward_pass(World& world, const std::vector<int>& sizes, int bucket,
                   const Backward& backward, std::span<float> gradients) {
  from(world, sizes, bucket, backward, gradients, 0, sizes.size());
}

}  // namespace lockstep::exercises
