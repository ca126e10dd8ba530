// diagnosis: as much is sent as
#include "exercises/34_resharding/task.h"

namespace lockstep::exercises {

namespace {
struct Range {
  std::size_t first, end;
};
Range shard_of(std::size_t P, int count, int r) {
  const auto shards = static_cast<std::size_t>(count), i = static_cast<std::size_t>(r);
  const std::size_t size = (P + shards - 1) / shards;
  return {i * size, (i + 1) * size};
}
}  // namespace

Buffer reshard(World& world, std::size_t P, int N, int M, Buffer old) {
  const int rank = world.rank();
  const Range before = shard_of(P, N, rank), after = shard_of(P, M, rank);
  Buffer shard;
  if (rank < M) shard = world.allocate(after.end - after.first);
  const std::size_t size = shard_of(P, N, 0).end;
  Buffer all = world.allocate(size * static_cast<std::size_t>(N));
  std::vector<Work> messages;
  for (int other = 0; other < world.size(); ++other) {
    if (other == rank) continue;
    if (rank < N) messages.push_back(world.send(old, other));
    if (other < N)
      messages.push_back(
          world.receive(all.span().subspan(static_cast<std::size_t>(other) * size, size), other));
  }
  for (Work& each : messages) each.wait();
  if (rank < N)
    std::ranges::copy(old.span(), all.span().begin() + static_cast<std::ptrdiff_t>(before.first));
  for (std::size_t i = 0; i < shard.size() && after.first + i < P; ++i)
    shard[i] = all[after.first + i];
  return shard;
}

}  // namespace lockstep::exercises
