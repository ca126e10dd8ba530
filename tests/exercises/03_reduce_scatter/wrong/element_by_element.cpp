// diagnosis: a chunk is sent in pieces
#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), r = world.rank();
  for (int k = 0; k < N - 1; ++k) {
    const auto out = chunk(data, (r - 1 - k + 2 * N) % N, N);
    const auto sum = chunk(data, (r - 2 - k + 2 * N) % N, N);
    std::vector<Work> works;
    std::vector<float> in(sum.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      works.push_back(world.send(out.subspan(i, 1), (r + 1) % N));
    for (std::size_t i = 0; i < sum.size(); ++i)
      works.push_back(world.receive(std::span{in}.subspan(i, 1), (r + N - 1) % N));
    for (Work& w : works) w.wait();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
  }
}

}  // namespace lockstep::exercises
