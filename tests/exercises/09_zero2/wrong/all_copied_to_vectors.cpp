// diagnosis: in memory that is not counted
#include "exercises/09_zero2/task.h"

namespace lockstep::exercises {

void backward_pass(World& world, const std::vector<int>& sizes, const Backward& backward,
                   std::vector<Buffer>& shards) {
  std::vector<std::vector<float>> all(sizes.size());
  {
    Buffer one = world.allocate(static_cast<std::size_t>(*std::ranges::max_element(sizes)));
    for (std::size_t layer = sizes.size(); layer-- > 0;) {
      const auto part = one.span().first(static_cast<std::size_t>(sizes[layer]));
      backward(static_cast<int>(layer), part);
      all[layer].assign(part.begin(), part.end());
    }
  }
  for (std::size_t layer = sizes.size(); layer-- > 0;) {
    reduce_scatter(world, all[layer]).wait();
    const auto sum = chunk(std::span{all[layer]}, world.rank(), world.size());
    for (std::size_t i = 0; i < sum.size(); ++i) shards[layer][i] += sum[i];
  }
}

}  // namespace lockstep::exercises
