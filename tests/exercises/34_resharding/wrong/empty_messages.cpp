// diagnosis: has no numbers
#include "exercises/34_resharding/task.h"

namespace lockstep::exercises {

namespace {

/// Numbers `first` to `end` - 1 of the vector.
struct Range {
  std::size_t first, end;
};

/// Shard r of `count`, with its padding.
Range shard_of(std::size_t P, int count, int r) {
  const auto shards = static_cast<std::size_t>(count), i = static_cast<std::size_t>(r);
  const std::size_t size = (P + shards - 1) / shards;
  return {i * size, (i + 1) * size};
}

/// The numbers that both shards have, without padding.
std::span<float> common(std::span<float> numbers, const Range& shard, const Range& other,
                        std::size_t P) {
  const std::size_t first = std::max(shard.first, other.first);
  const std::size_t end = std::min({shard.end, other.end, P});
  if (first >= end || numbers.empty()) return {};
  return numbers.subspan(first - shard.first, end - first);
}

}  // namespace

Buffer reshard(World& world, std::size_t P, int N, int M, Buffer old) {
  const int rank = world.rank();
  const Range before = shard_of(P, N, rank), after = shard_of(P, M, rank);
  Buffer shard;
  if (rank < M) shard = world.allocate(after.end - after.first);  // zeros: so is the padding

  // All messages are in flight at the same time, so no rank waits for another one's turn.
  std::vector<Work> messages;
  for (int other = 0; other < world.size(); ++other) {
    const auto leaving = common(old, before, shard_of(P, M, other), P);
    const auto arriving = common(shard, after, shard_of(P, N, other), P);
    if (other == rank) {
      std::ranges::copy(leaving, arriving.begin());
    } else {
      messages.push_back(world.send(leaving, other));
      messages.push_back(world.receive(arriving, other));
    }
  }
  for (Work& each : messages) each.wait();
  return shard;
}

}  // namespace lockstep::exercises
