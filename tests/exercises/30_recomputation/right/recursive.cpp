#include "exercises/30_recomputation/task.h"

namespace lockstep::exercises {

namespace {

// Runs the forward pass of all blocks from `first` on, one segment at a time, and their backward
// pass from the last block to `first`. Leaves the gradient of the input in x. The recomputation
// uses `random` itself, and restores its state afterwards.
void run_from(World& world, const Chain& chain, int first, int k, Buffer& x, Random& random) {
  if (first >= chain.blocks) return chain.loss(x);
  const int end = std::min(first + k, chain.blocks);
  Buffer kept = world.allocate(chain.width);
  std::copy(x.span().begin(), x.span().end(), kept.span().begin());
  const Random at_begin = random;
  for (int i = first; i < end; ++i) {
    Buffer scratch = world.allocate(chain.activations);
    chain.forward(i, x, scratch, random);
  }
  run_from(world, chain, end, k, x, random);
  const Random at_end = random;
  random = at_begin;
  Buffer all = world.allocate(chain.activations * static_cast<std::size_t>(end - first));
  for (int i = first; i < end; ++i)
    chain.forward(i, kept, chunk(all.span(), i - first, end - first), random);
  random = at_end;
  kept.reset();
  for (int i = end; i-- > first;) chain.backward(i, chunk(all.span(), i - first, end - first), x);
}

}  // namespace

Buffer train_step(World& world, const Chain& chain, int k, Buffer x, Random& random) {
  run_from(world, chain, 0, k, x, random);
  return x;
}

}  // namespace lockstep::exercises
