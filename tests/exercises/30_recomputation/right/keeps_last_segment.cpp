#include "exercises/30_recomputation/task.h"

namespace lockstep::exercises {

// The last segment keeps its activations from the forward pass, and needs no second forward pass.
Buffer train_step(World& world, const Chain& chain, int k, Buffer x, Random& random) {
  const int L = chain.blocks, last = (L - 1) / k * k;
  std::vector<Buffer> inputs, activations;
  std::vector<Random> generators;
  for (int i = 0; i < last; ++i) {
    if (i % k == 0) {
      inputs.push_back(world.allocate(chain.width));
      std::copy(x.span().begin(), x.span().end(), inputs.back().span().begin());
      generators.push_back(random);
    }
    activations.push_back(world.allocate(chain.activations));
    chain.forward(i, x, activations[0], random);
    activations.clear();
  }
  for (int i = last; i < L; ++i) {
    activations.push_back(world.allocate(chain.activations));
    chain.forward(i, x, activations.back(), random);
  }
  Buffer gradient = std::move(x);
  chain.loss(gradient);
  for (int i = L - 1; i >= 0; --i) {
    if (activations.empty()) {
      const int first = i / k * k;
      for (int j = first; j <= i; ++j) {
        activations.push_back(world.allocate(chain.activations));
        chain.forward(j, inputs.back(), activations.back(), generators.back());
      }
      inputs.pop_back();
      generators.pop_back();
    }
    chain.backward(i, activations.back(), gradient);
    activations.pop_back();
  }
  return gradient;
}

}  // namespace lockstep::exercises
