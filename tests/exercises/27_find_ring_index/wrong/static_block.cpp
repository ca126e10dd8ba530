// diagnosis: static variable
#include "exercises/27_find_ring_index/task.h"

namespace lockstep::exercises {

void gather_blocks(World& world, std::span<const float> mine, std::span<float> all) {
  const int N = world.size(), rank = world.rank();
  const int right = (rank + 1) % N, left = (rank + N - 1) % N;
  // Stores a block in the place for rank `owner`'s block.
  const auto keep = [&](std::span<const float> block, int owner) {
    std::ranges::copy(block, all.begin() + owner * static_cast<std::ptrdiff_t>(mine.size()));
  };
  std::vector<float> block(mine.begin(), mine.end());
  static std::vector<float> next;
  next.resize(mine.size());
  keep(block, rank);
  for (int k = 1; k < N; ++k) {
    Work sent = world.send(block, right);
    Work received = world.receive(next, left);
    sent.wait();
    received.wait();
    std::swap(block, next);
    // Blocks move to the right, so each one comes from a rank further to the left than the last.
    keep(block, (rank - k + N) % N);
  }
}

}  // namespace lockstep::exercises
