#include "exercises/34_resharding/task.h"

namespace lockstep::exercises {

// Sends one message per parameter. Frees the old shard before it does anything else with the new
// one.
Buffer reshard(World& world, std::size_t P, int N, int M, Buffer old) {
  const int rank = world.rank();
  const auto size = [&](int shards) {
    return static_cast<int>((P + static_cast<std::size_t>(shards) - 1) /
                            static_cast<std::size_t>(shards));
  };
  const int from = size(N), to = size(M);
  Buffer shard = world.allocate(rank < M ? static_cast<std::size_t>(to) : 0);
  std::vector<Work> all;
  for (int i = 0; i < static_cast<int>(P); ++i) {
    const int before = i / from, after = i / to;
    const auto source = [&] { return old.span().subspan(static_cast<std::size_t>(i % from), 1); };
    const auto target = [&] { return shard.span().subspan(static_cast<std::size_t>(i % to), 1); };
    if (before == rank && after == rank) target()[0] = source()[0];
    if (before == rank && after != rank) all.push_back(world.send(source(), after));
    if (before != rank && after == rank) all.push_back(world.receive(target(), before));
  }
  while (!all.empty()) {
    all.back().wait();
    all.pop_back();
  }
  old.reset();
  return shard;
}

}  // namespace lockstep::exercises
