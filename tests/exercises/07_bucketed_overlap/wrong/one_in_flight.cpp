// diagnosis: The backward pass pauses
#include "exercises/07_bucketed_overlap/task.h"

namespace lockstep::exercises {

void backward_pass(World& world, const std::vector<int>& sizes, int bucket,
                   const Backward& backward, std::span<float> gradients) {
  std::vector<Work> in_flight;
  // The layers before `begin` are still to come. The layers from `begin` to `end` are in the bucket
  // that is being filled; those after `end` are in flight.
  std::size_t begin = gradients.size(), end = gradients.size();
  for (int layer = static_cast<int>(sizes.size()) - 1; layer >= 0; --layer) {
    const auto size = static_cast<std::size_t>(sizes[static_cast<std::size_t>(layer)]);
    begin -= size;
    backward(layer, gradients.subspan(begin, size));
    const bool is_full = end - begin >= static_cast<std::size_t>(bucket);
    // The last bucket is sent even if it is not full.
    if (is_full || (layer == 0 && end > begin)) {
      // Two all-reduces can't run at the same time anyway.
      if (!in_flight.empty()) in_flight.back().wait();
      in_flight.push_back(all_reduce(world, gradients.subspan(begin, end - begin)));
      end = begin;
    }
  }
  if (!in_flight.empty()) in_flight.back().wait();
}

}  // namespace lockstep::exercises
