// diagnosis: the remainder of a negative number is negative
#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), rank = world.rank();
  std::vector<float> arrived(chunk(data, 0, N).size());
  for (int k = 0; k < N - 1; ++k) {
    const std::span<float> sum = chunk(data, (rank - 2 - k) % N, N);
    const std::span<float> in = std::span{arrived}.first(sum.size());
    Work sent = world.send(chunk(data, (rank - 1 - k) % N, N), (rank + 1) % N);
    Work received = world.receive(in, (rank + N - 1) % N);
    received.wait();
    sent.wait();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
  }
}

}  // namespace lockstep::exercises
