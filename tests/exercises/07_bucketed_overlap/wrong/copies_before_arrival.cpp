// diagnosis: had not yet left there
#include "exercises/07_bucketed_overlap/task.h"

namespace lockstep::exercises {

void backward_pass(World& world, const std::vector<int>& sizes, int bucket,
                   const Backward& backward, std::span<float> gradients) {
  std::vector<Work> works;
  std::vector<float> all(gradients.size());
  std::size_t begin = gradients.size(), end = begin;
  for (std::size_t layer = sizes.size(); layer-- > 0;) {
    const auto size = static_cast<std::size_t>(sizes[layer]);
    begin -= size;
    backward(static_cast<int>(layer), std::span{all}.subspan(begin, size));
    if (end > begin && (end - begin >= static_cast<std::size_t>(bucket) || layer == 0)) {
      works.push_back(all_reduce(world, std::span{all}.subspan(begin, end - begin)));
      end = begin;
    }
  }
  std::ranges::copy(all, gradients.begin());
  for (Work& each : works) each.wait();
}

}  // namespace lockstep::exercises
