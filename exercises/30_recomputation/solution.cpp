#include "exercises/30_recomputation/task.h"

namespace lockstep::exercises {

namespace {

/// The data that a segment needs to run its forward pass again.
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
  chain.loss(x);  // from here on, x is a gradient

  for (int end = chain.blocks; !kept.empty();) {
    Kept segment = std::move(kept.back());
    kept.pop_back();
    const int first = k * static_cast<int>(kept.size());
    std::vector<Buffer> activations;
    for (int block = first; block < end; ++block) {
      activations.push_back(world.allocate(chain.activations));
      // Uses the generator of the segment's beginning, so that `random` stays unchanged.
      chain.forward(block, segment.input, activations.back(), segment.random);
    }
    while (end > first) {
      chain.backward(--end, activations.back(), x);
      activations.pop_back();
    }
  }
  return x;
}

}  // namespace lockstep::exercises
