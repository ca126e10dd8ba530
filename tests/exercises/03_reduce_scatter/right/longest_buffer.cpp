// A buffer as long as the longest chunk, computed without chunk(), and all receives started first.
#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  const auto N = static_cast<std::size_t>(world.size());
  const auto rank = static_cast<std::size_t>(world.rank());
  const std::size_t longest = (data.size() + N - 1) / N;
  const auto part = [&](std::size_t i) {
    return chunk(data, static_cast<int>(i % N), static_cast<int>(N));
  };
  std::vector<float> arrived(N * longest);
  std::vector<Work> receives, sends;
  const auto slot = [&](std::size_t k) {
    return std::span{arrived}.subspan(k * longest, part(rank + 2 * N - 2 - k).size());
  };
  for (std::size_t k = 0; k + 1 < N; ++k)
    receives.push_back(world.receive(slot(k), static_cast<int>((rank + N - 1) % N)));
  for (std::size_t k = 0; k + 1 < N; ++k) {
    sends.push_back(world.send(part(rank + 2 * N - 1 - k), static_cast<int>((rank + 1) % N)));
    receives[k].wait();
    const std::span<float> sum = part(rank + 2 * N - 2 - k), in = slot(k);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
  }
  for (Work& each : sends) each.wait();
}

}  // namespace lockstep::exercises
