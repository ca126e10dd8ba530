// diagnosis: each block runs forward at most twice
#include "exercises/30_recomputation/task.h"

namespace lockstep::exercises {

namespace {
struct Kept {
  Buffer input;
  Random random;
};

}  // namespace

Buffer train_step(World& world, const Chain& chain, int k, Buffer x, Random& random) {
  std::vector<Kept> kept;
  for (int block = 0; block < chain.blocks; ++block) {
    if (block % k == 0) {
      kept.push_back({world.allocate(chain.width), random});
      std::ranges::copy(x.span(), kept.back().input.span().begin());
    }
    Buffer discarded = world.allocate(chain.activations);
    chain.forward(block, x, discarded, random);
  }
  chain.loss(x);

  for (int end = chain.blocks; !kept.empty();) {
    Kept segment = std::move(kept.back());
    kept.pop_back();
    const int first = k * static_cast<int>(kept.size());
    while (end > first) {
      Buffer input = world.allocate(chain.width);
      std::ranges::copy(segment.input.span(), input.span().begin());
      Buffer activations_of_one = world.allocate(chain.activations);
      Random again = segment.random;
      for (int block = first; block < end; ++block)
        chain.forward(block, input, activations_of_one, again);
      chain.backward(--end, activations_of_one, x);
    }
  }
  return x;
}

}  // namespace lockstep::exercises
