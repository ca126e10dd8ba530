#include "exercises/27_find_ring_index/task.h"

#include <algorithm>

// Bruck's algorithm: messages of 1, 2, 4, ... blocks; N - 1 blocks in all.

namespace lockstep::exercises {

void gather_blocks(World& world, std::span<const float> mine, std::span<float> all) {
  const int N = world.size(), r = world.rank();
  const std::size_t n = mine.size();
  std::vector<float> held(all.size());  // block i is that of rank r + i
  std::ranges::copy(mine, held.begin());
  for (int have = 1; have < N; have *= 2) {
    const auto count = static_cast<std::size_t>(std::min(have, N - have)) * n;
    const auto into = std::span{held}.subspan(static_cast<std::size_t>(have) * n, count);
    Work in = world.receive(into, (r + have) % N);
    Work out = world.send(std::span{held}.first(count), (r + N - have) % N);
    in.wait();
    out.wait();
  }
  for (int i = 0; i < N; ++i)
    std::copy_n(
        held.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * n), n,
        all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>((r + i) % N) * n));
}

}  // namespace lockstep::exercises
