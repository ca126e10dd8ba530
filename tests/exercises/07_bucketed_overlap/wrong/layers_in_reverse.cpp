// diagnosis: These are the right sums of other numbers
#include "exercises/07_bucketed_overlap/task.h"

namespace lockstep::exercises {

void backward_pass(World& world, const std::vector<int>& sizes, int bucket,
                   const Backward& backward, std::span<float> gradients) {
  std::vector<Work> works;
  std::size_t begin = gradients.size(), end = begin;
  std::vector<float> memory(gradients.size());
  for (std::size_t layer = sizes.size(); layer-- > 0;) {
    const auto size = static_cast<std::size_t>(sizes[layer]);
    const std::size_t filled = end - begin;
    begin -= size;
    backward(static_cast<int>(layer), std::span{memory}.subspan(filled, size));
    if (end > begin && (filled + size >= static_cast<std::size_t>(bucket) || layer == 0)) {
      works.push_back(all_reduce(world, std::span{memory}.first(end - begin)));
      end = begin;
    }
  }
  for (Work& each : works) each.wait();
  std::ranges::copy(memory, gradients.begin());
}

}  // namespace lockstep::exercises
