// diagnosis: it gathers nothing
#include "exercises/10_zero3/task.h"

namespace lockstep::exercises {

void forward_pass(World& world, const std::vector<int>& sizes, const std::vector<Buffer>& shards,
                  const Forward& forward) {
  const auto start = [&](Buffer& b, std::size_t l) {
    b = world.allocate(static_cast<std::size_t>(sizes[l]));
    std::ranges::copy(std::span<const float>{shards[l]},
                      chunk(b.span(), world.rank(), world.size()).begin());
    return all_gather(world, b);
  };
  for (std::size_t l = 0; l < sizes.size(); l += 2) {
    Buffer a, b;
    start(a, l).wait();
    Work w;
    if (l + 1 < sizes.size()) w = start(b, l + 1);
    forward(static_cast<int>(l), a);
    a.reset();
    if (l + 1 == sizes.size()) break;
    w.wait();
    forward(static_cast<int>(l) + 1, b);
  }
}

}  // namespace lockstep::exercises
