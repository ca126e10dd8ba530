#include <map>

#include "exercises/07_bucketed_overlap/task.h"

// As in PyTorch, buckets have their own memory and are planned before the backward pass.

namespace lockstep::exercises {

namespace {

struct Bucket {
  std::size_t begin = 0;  ///< in `gradients`
  int layers_missing = 0;
  Buffer numbers;
  Work work;
};

}  // namespace

void backward_pass(World& world, const std::vector<int>& sizes, int bucket,
                   const Backward& backward, std::span<float> gradients) {
  std::map<std::size_t, std::size_t> begins, bucket_of;  // by layer
  std::vector<Bucket> buckets;
  std::size_t at = gradients.size(), filled = 0;
  int layers = 0;
  for (std::size_t layer = sizes.size(); layer-- > 0;) {
    begins[layer] = at -= static_cast<std::size_t>(sizes[layer]);
    bucket_of[layer] = buckets.size();
    filled += static_cast<std::size_t>(sizes[layer]);
    ++layers;
    if (filled >= static_cast<std::size_t>(bucket) || layer == 0) {
      buckets.push_back({at, layers, world.allocate(filled), Work{}});
      filled = 0;
      layers = 0;
    }
  }
  for (std::size_t layer = sizes.size(); layer-- > 0;) {
    Bucket& mine = buckets[bucket_of[layer]];
    const std::span<float> part = mine.numbers.span().subspan(
        begins[layer] - mine.begin, static_cast<std::size_t>(sizes[layer]));
    backward(static_cast<int>(layer), part);
    if (--mine.layers_missing == 0 && !mine.numbers.empty())
      mine.work = all_reduce(world, mine.numbers);
  }
  for (Bucket& each : buckets) {
    if (each.work) each.work.wait();
    std::copy_n(each.numbers.span().begin(), each.numbers.size(),
                gradients.begin() + static_cast<std::ptrdiff_t>(each.begin));
  }
}

}  // namespace lockstep::exercises
