// diagnosis: sends more than N - 1 chunks
#include "exercises/03_reduce_scatter/task.h"

namespace lockstep::exercises {

void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), rank = world.rank();
  const std::vector<float> mine(data.begin(), data.end());
  std::vector<float> theirs(data.size());
  for (int k = 1; k < N; ++k) {
    Work sent = world.send(mine, (rank + k) % N);
    Work received = world.receive(theirs, (rank + N - k) % N);
    received.wait();
    sent.wait();
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += theirs[i];
  }
}

}  // namespace lockstep::exercises
