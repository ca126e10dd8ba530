// Half of the blocks travel to the right, and half to the left.
#include "exercises/27_find_ring_index/task.h"

namespace lockstep::exercises {

void gather_blocks(World& world, std::span<const float> mine, std::span<float> all) {
  const int N = world.size(), r = world.rank(), right = (r + 1) % N, left = (r + N - 1) % N;
  const auto n = mine.size();
  const auto place = [&](int i) {
    return all.subspan(static_cast<std::size_t>((i % N + N) % N) * n, n);
  };
  std::ranges::copy(mine, place(r).begin());
  for (int k = 1; 2 * k <= N; ++k) {
    Work in = world.receive(place(r - k), left), out = world.send(place(r - k + 1), right);
    if (2 * k < N) {
      Work in2 = world.receive(place(r + k), right), out2 = world.send(place(r + k - 1), left);
      in2.wait();
      out2.wait();
    }
    in.wait();
    out.wait();
  }
}

}  // namespace lockstep::exercises
