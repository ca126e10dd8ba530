// diagnosis: chunks of 4 and 3
#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), rank = world.rank();
  const int right = (rank + 1) % N, left = (rank + N - 1) % N;
  std::vector<float> arrived(data.size() / static_cast<std::size_t>(N));
  // A chunk starts at the rank after the one that it belongs to, and visits every other rank on its
  // way there. In round k, a rank passes on the chunk to which it added in round k - 1.
  for (int k = 0; k < N - 1; ++k) {
    const std::span<float> out = chunk(data, (rank - 1 - k + 2 * N) % N, N);
    const std::span<float> sum = chunk(data, (rank - 2 - k + 2 * N) % N, N);
    const std::span<float> in = std::span{arrived}.first(sum.size());
    Work sent = world.send(out, right);
    Work received = world.receive(in, left);
    received.wait();
    sent.wait();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
  }
}

}  // namespace lockstep::exercises
