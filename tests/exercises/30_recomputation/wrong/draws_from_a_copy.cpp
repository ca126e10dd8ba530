// diagnosis: or all masks were drawn from a copy
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
  Random copy = random;
  for (int block = 0; block < chain.blocks; ++block) {
    if (block % k == 0) {
      kept.push_back({world.allocate(chain.width), copy});
      std::ranges::copy(x.span(), kept.back().input.span().begin());
    }
    Buffer discarded = world.allocate(chain.activations);
    chain.forward(block, x, discarded, copy);
  }
  chain.loss(x);

  for (int end = chain.blocks; !kept.empty();) {
    Kept segment = std::move(kept.back());
    kept.pop_back();
    const int first = k * static_cast<int>(kept.size());
    std::vector<Buffer> activations;
    for (int block = first; block < end; ++block) {
      activations.push_back(world.allocate(chain.activations));
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
