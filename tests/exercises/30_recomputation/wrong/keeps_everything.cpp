// diagnosis: nothing is recomputed
#include "exercises/30_recomputation/task.h"

namespace lockstep::exercises {

namespace {
struct Kept {
  Buffer input;
  Random random;
};

}  // namespace

Buffer train_step(World& world, const Chain& chain, int k, Buffer x, Random& random) {
  std::vector<Buffer> kept;
  for (int block = 0; block < chain.blocks; ++block) {
    kept.push_back(world.allocate(chain.activations));
    chain.forward(block, x, kept.back(), random);
  }
  chain.loss(x);

  (void)k;
  for (int block = chain.blocks; block-- > 0; kept.pop_back())
    chain.backward(block, kept.back(), x);
  return x;
}

}  // namespace lockstep::exercises
