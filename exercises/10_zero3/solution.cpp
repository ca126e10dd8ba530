#include "exercises/10_zero3/task.h"

namespace lockstep::exercises {

namespace {

/// A whole layer, complete after work.wait(). The Work uses the Buffer, so `work` is declared after
/// the Buffer.
struct Whole {
  Buffer parameters;
  Work work;
};

Whole start_gather(World& world, int size, std::span<const float> shard) {
  Whole whole{world.allocate(static_cast<std::size_t>(size)), Work{}};
  const std::span<float> mine = chunk(whole.parameters.span(), world.rank(), world.size());
  std::copy(shard.begin(), shard.end(), mine.begin());
  whole.work = all_gather(world, whole.parameters);
  return whole;
}

}  // namespace

void forward_pass(World& world, const std::vector<int>& sizes, const std::vector<Buffer>& shards,
                  const Forward& forward) {
  Whole next = start_gather(world, sizes[0], shards[0]);
  for (std::size_t layer = 0; layer < sizes.size(); ++layer) {
    Whole current = std::move(next);
    current.work.wait();
    // In flight while `current` computes.
    if (layer + 1 < sizes.size()) next = start_gather(world, sizes[layer + 1], shards[layer + 1]);
    forward(static_cast<int>(layer), current.parameters);
  }  // `current` is discarded here, before the gather after next begins
}

}  // namespace lockstep::exercises
