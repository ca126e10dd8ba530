// diagnosis: a rank that uses it early
#include "exercises/20_ring_attention/task.h"

namespace lockstep::exercises {

void ring_attention(World& world, const Attend& attend, Buffer own, std::span<float> y,
                    std::span<float> lse) {
  const int N = world.size(), right = (world.rank() + 1) % N, left = (world.rank() + N - 1) % N;
  Buffer held = std::move(own), arriving = world.allocate(held.size());
  Buffer y_part = world.allocate(y.size()), lse_part = world.allocate(lse.size());
  Work late;
  for (int round = 0; round < N; ++round) {
    // In the last round, nothing is passed on: every rank has received all blocks.
    const bool is_last = round == N - 1;
    Work sent = is_last ? Work{} : world.send(held, right);
    Work received = is_last ? Work{} : world.receive(arriving, left);

    // While the block travels on, compute with it: both only read it.
    if (round == 0) {
      attend(held, y, lse);
    } else {
      attend(is_last ? held : held, y_part, lse_part);
      merge(y, lse, y_part, lse_part);
    }
    if (is_last) break;
    sent.wait();
    std::swap(held, arriving);
    late = std::move(received);
  }
}

}  // namespace lockstep::exercises
