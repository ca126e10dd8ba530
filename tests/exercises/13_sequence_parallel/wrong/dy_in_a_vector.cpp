// diagnosis: it takes memory that is not counted
#include "exercises/13_sequence_parallel/task.h"

namespace lockstep::exercises {

Buffer mlp_forward(World& world, const Mlp& block, Buffer x, Saved& saved) {
  const int t = world.size(), rank = world.rank();
  // Each rank writes the norm of its own tokens directly to their place among all tokens.
  Buffer n = world.allocate(block.whole());
  norm(world, block, x, chunk(n.span(), rank, t));
  all_gather(world, n).wait();
  Buffer h = world.allocate(block.hidden());
  column(world, block, n, h);

  // Each rank has one term of the sum for all tokens, and needs the sum for its own tokens.
  Buffer term = world.allocate(block.whole());
  row(world, block, h, term);
  reduce_scatter(world, term).wait();
  const std::span<float> sum = chunk(term.span(), rank, t);
  Buffer y = world.allocate(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] + sum[i];
  saved = {std::move(x), std::move(n), std::move(h)};
  return y;
}

Buffer mlp_backward(World& world, const Mlp& block, Buffer dy, Saved saved, Gradients& gradients) {
  const int t = world.size(), rank = world.rank();
  // Where the forward pass has a reduce-scatter, the backward pass has an all-gather.
  std::vector<float> memory(block.whole());
  const std::span<float> whole = memory;
  std::ranges::copy(dy.span(), chunk(whole, rank, t).begin());
  all_gather(world, whole).wait();
  Buffer dh = world.allocate(block.hidden());
  row_backward(world, block, saved.h, whole, dh, gradients.B);

  // And vice versa. The gradient of y is no longer needed, so that of n can take its place.
  column_backward(world, block, saved.n, dh, whole, gradients.A);
  reduce_scatter(world, whole).wait();
  norm_backward(world, block, saved.x, chunk(whole, rank, t), dy, gradients.gain);
  // All ranks have the gain, but each has used it for its own tokens only.
  all_reduce(world, gradients.gain).wait();
  return dy;  // the residual connection's gradient, to which the norm has added its own
}

}  // namespace lockstep::exercises
