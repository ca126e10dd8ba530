// diagnosis: changes the static variable `arrived`
#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  static std::vector<float> arrived;
  const int N = world.size(), r = world.rank();
  arrived.resize(std::max(arrived.size(), data.size() + 1));
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
