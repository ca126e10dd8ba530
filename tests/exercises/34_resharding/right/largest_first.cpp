// Receives first, and sends the longest message first.
#include "exercises/34_resharding/task.h"

namespace lockstep::exercises {

Buffer reshard(World& world, std::size_t P, int N, int M, Buffer old) {
  const auto size = [&](int shards) {
    return (static_cast<int>(P) + shards - 1) / shards;  // of a shard
  };
  struct Part {
    int first, end;
    int count() const { return std::max(0, end - first); }
  };
  const auto common = [&](int from, int to) {
    if (from >= N || to >= M) return Part{0, 0};
    return Part{std::max(from * size(N), to * size(M)),
                std::min({(from + 1) * size(N), (to + 1) * size(M), static_cast<int>(P)})};
  };
  const int r = world.rank();
  Buffer shard;
  if (r < M) shard = world.allocate(static_cast<std::size_t>(size(M)));
  const auto of = [&](Buffer& numbers, int begin, const Part& part) {
    return numbers.span().subspan(static_cast<std::size_t>(part.first - begin),
                                  static_cast<std::size_t>(part.count()));
  };
  std::vector<Work> works;
  std::vector<int> others;
  for (int other = 0; other < world.size(); ++other) {
    if (other == r) continue;
    if (const Part part = common(other, r); part.count() > 0)
      works.push_back(world.receive(of(shard, r * size(M), part), other));
    if (common(r, other).count() > 0) others.push_back(other);
  }
  std::ranges::sort(others, std::greater{}, [&](int other) { return common(r, other).count(); });
  for (const int other : others)
    works.push_back(world.send(of(old, r * size(N), common(r, other)), other));
  if (const Part own = common(r, r); own.count() > 0)
    std::ranges::copy(of(old, r * size(N), own), of(shard, r * size(M), own).begin());
  for (Work& each : works) each.wait();
  return shard;
}

}  // namespace lockstep::exercises
