// diagnosis: no rank can hold the whole vector
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
  (void)before;
  Buffer shard;
  if (rank < M) shard = world.allocate(after.end - after.first);
  const std::size_t size = shard_of(P, N, 0).end;
  if (rank > 0) {
    if (rank < N) world.send(old, 0).wait();
    if (rank < M) world.receive(shard, 0).wait();
    if (rank < M && after.end > P)
      std::fill(shard.span().begin() + static_cast<std::ptrdiff_t>(
                                           std::min(P - std::min(P, after.first), shard.size())),
                shard.span().end(), 0.0F);
    return shard;
  }
  Buffer all = world.allocate(
      std::max(size * static_cast<std::size_t>(N), shard.size() * static_cast<std::size_t>(M)));
  std::ranges::copy(old.span(), all.span().begin());
  for (int other = 1; other < N; ++other)
    world.receive(all.span().subspan(static_cast<std::size_t>(other) * size, size), other).wait();
  std::ranges::fill(all.span().subspan(P), 0.0F);
  for (int other = 1; other < M; ++other)
    world
        .send(all.span().subspan(static_cast<std::size_t>(other) * shard.size(), shard.size()),
              other)
        .wait();
  std::ranges::copy(all.span().first(shard.size()), shard.span().begin());
  return shard;
}

}  // namespace lockstep::exercises
