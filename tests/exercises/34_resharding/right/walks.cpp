#include "exercises/34_resharding/task.h"

namespace lockstep::exercises {

// Each rank goes through its old shard, and then through its new one, owner by owner.
Buffer reshard(World& world, std::size_t P, int N, int M, Buffer old) {
  const auto rank = static_cast<std::size_t>(world.rank());
  const auto rounded_up = [&](int shards) {
    return (P + static_cast<std::size_t>(shards) - 1) / static_cast<std::size_t>(shards);
  };
  const std::size_t from = rounded_up(N), to = rounded_up(M);
  Buffer shard = world.rank() < M ? world.allocate(to) : world.allocate(0);
  std::vector<Work> sends, receives;
  for (std::size_t i = rank * from, end; i < std::min(P, (rank + 1) * from); i = end) {
    const std::size_t owner = i / to;
    end = std::min({(owner + 1) * to, (rank + 1) * from, P});
    const auto numbers = old.span().subspan(i - rank * from, end - i);
    if (owner == rank)
      std::copy(numbers.begin(), numbers.end(), shard.span().subspan(i - rank * to).begin());
    else
      sends.push_back(world.send(numbers, static_cast<int>(owner)));
  }
  for (std::size_t i = rank * to, end; i < std::min(P, (rank + 1) * to); i = end) {
    const std::size_t owner = i / from;
    end = std::min({(owner + 1) * from, (rank + 1) * to, P});
    if (owner != rank)
      receives.push_back(
          world.receive(shard.span().subspan(i - rank * to, end - i), static_cast<int>(owner)));
  }
  for (Work& each : sends) each.wait();
  for (Work& each : receives) each.wait();
  return shard;
}

}  // namespace lockstep::exercises
