#include "exercises/04_all_reduce/task.h"

// Posts all receives at the beginning, and waits for the sends at the end.

namespace lockstep::exercises {

void all_gather(World& world, std::span<float> data) {
  const int N = world.size(), r = world.rank();
  std::vector<Work> in, out;
  for (int k = 0; k + 1 < N; ++k)
    in.push_back(world.receive(chunk(data, (r + 2 * N - k - 1) % N, N), (r + N - 1) % N));
  for (int k = 0; k + 1 < N; ++k) {
    if (k > 0) in[static_cast<std::size_t>(k - 1)].wait();
    out.push_back(world.send(chunk(data, (r + N - k) % N, N), (r + 1) % N));
  }
  if (N > 1) in.back().wait();
  for (Work& each : out) each.wait();
}
void all_reduce(World& world, std::span<float> data) {
  if (world.size() == 1) return;
  reduce_scatter(world, data);
  all_gather(world, data);
}

}  // namespace lockstep::exercises
