#include "exercises/07_bucketed_overlap/task.h"

// Each bucket's all-reduce is a reduce-scatter and an all-gather, both started at once.

namespace lockstep::exercises {

void backward_pass(World& world, const std::vector<int>& sizes, int bucket,
                   const Backward& backward, std::span<float> gradients) {
  std::vector<Work> works;
  std::size_t begin = gradients.size(), end = begin;
  for (std::size_t layer = sizes.size(); layer-- > 0;) {
    begin -= static_cast<std::size_t>(sizes[layer]);
    backward(static_cast<int>(layer),
             gradients.subspan(begin, static_cast<std::size_t>(sizes[layer])));
    if (end - begin < static_cast<std::size_t>(bucket) && layer > 0) continue;
    if (end == begin) continue;
    const auto part = gradients.subspan(begin, end - begin);
    works.push_back(reduce_scatter(world, part));
    works.push_back(all_gather(world, part));
    end = begin;
  }
  for (Work& each : works) each.wait();
}

}  // namespace lockstep::exercises
