// diagnosis: start the send and the receive, and only then wait
#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), rank = world.rank();
  const int right = (rank + 1) % N, left = (rank + N - 1) % N;
  std::vector<float> arrived(chunk(data, 0, N).size());  // chunk 0 is as long as any
  for (int k = 0; k < N - 1; ++k) {
    const std::span<float> out = chunk(data, (rank - 1 - k + 2 * N) % N, N);
    const std::span<float> sum = chunk(data, (rank - 2 - k + 2 * N) % N, N);
    const std::span<float> in = std::span{arrived}.first(sum.size());
    world.send(out, right).wait();
    Work received = world.receive(in, left);
    received.wait();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
  }
}

}  // namespace lockstep::exercises
