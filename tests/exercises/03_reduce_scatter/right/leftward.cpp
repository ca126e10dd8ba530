#include "exercises/03_reduce_scatter/task.h"

// The ring runs to the left.

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), r = world.rank();
  for (int k = 0; k < N - 1; ++k) {
    const auto out = chunk(data, (r + 1 + k) % N, N);
    const auto sum = chunk(data, (r + 2 + k) % N, N);
    Buffer in = world.allocate(sum.size());
    Work sent = world.send(out, (r + N - 1) % N);
    world.receive(in, (r + 1) % N).wait();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
    sent.wait();
  }
}

}  // namespace lockstep::exercises
