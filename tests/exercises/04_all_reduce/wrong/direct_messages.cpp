// diagnosis: sends to one neighbour only
#include "exercises/04_all_reduce/task.h"

namespace lockstep::exercises {

void all_gather(World& world, std::span<float> data) {
  const int N = world.size(), rank = world.rank();
  for (int k = 1; k < N; ++k) {
    const int to = (rank + k) % N, from = (rank + N - k) % N;
    Work sent = world.send(chunk(data, rank, N), to);
    Work received = world.receive(chunk(data, from, N), from);
    received.wait();
    sent.wait();
  }
}

void all_reduce(World& world, std::span<float> data) {
  reduce_scatter(world, data);
  all_gather(world, data);
}

}  // namespace lockstep::exercises
