// diagnosis: sends to rank 1 and to rank 2
#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), r = world.rank();
  // Half of the ranks' chunks travel to the left: the sums are right, but the ring has two
  // directions.
  std::vector<float> arrived(data.size());
  std::vector<Work> works;
  if (N == 3) {
    std::vector<float> a(chunk(data, r, N).size()), b(a.size());
    works.push_back(world.send(chunk(data, (r + 1) % N, N), (r + 1) % N));
    works.push_back(world.send(chunk(data, (r + 2) % N, N), (r + 2) % N));
    works.push_back(world.receive(a, (r + 1) % N));
    works.push_back(world.receive(b, (r + 2) % N));
    for (Work& w : works) w.wait();
    const auto mine = chunk(data, r, N);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += a[i] + b[i];
    return;
  }
  for (int k = 0; k < N - 1; ++k) {
    const auto sum = chunk(data, (r - 2 - k + 2 * N) % N, N);
    const auto in = std::span{arrived}.first(sum.size());
    Work sent = world.send(chunk(data, (r - 1 - k + 2 * N) % N, N), (r + 1) % N);
    world.receive(in, (r + N - 1) % N).wait();
    sent.wait();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
  }
}

}  // namespace lockstep::exercises
