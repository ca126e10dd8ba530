// diagnosis: the ranks repeat each other's work
#include "exercises/13_sequence_parallel/task.h"

namespace lockstep::exercises {

Buffer mlp_forward(World& world, const Mlp& block, Buffer x, Saved& saved) {
  const int t = world.size(), rank = world.rank();
  Buffer n = world.allocate(block.whole());
  std::ranges::copy(x.span(), chunk(n.span(), rank, t).begin());
  all_gather(world, n).wait();
  for (int r = 0; r < t; ++r) {
    const auto part = chunk(n.span(), r, t);
    const std::vector<float> copy(part.begin(), part.end());
    norm(world, block, copy, part);
  }
  Buffer h = world.allocate(block.hidden());
  column(world, block, n, h);
  Buffer term = world.allocate(block.whole());
  row(world, block, h, term);
  reduce_scatter(world, term).wait();
  const auto sum = chunk(term.span(), rank, t);
  Buffer y = world.allocate(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] + sum[i];
  saved = {std::move(x), std::move(n), std::move(h)};
  return y;
}
Buffer mlp_backward(World& world, const Mlp& block, Buffer dy, Saved saved, Gradients& gradients) {
  const int t = world.size(), rank = world.rank();
  Buffer whole = world.allocate(block.whole());
  std::ranges::copy(dy.span(), chunk(whole.span(), rank, t).begin());
  all_gather(world, whole).wait();
  Buffer dh = world.allocate(block.hidden());
  row_backward(world, block, saved.h, whole, dh, gradients.B);
  column_backward(world, block, saved.n, dh, whole, gradients.A);
  reduce_scatter(world, whole).wait();
  norm_backward(world, block, saved.x, chunk(whole.span(), rank, t), dy, gradients.gain);
  all_reduce(world, gradients.gain).wait();
  return dy;
}

}  // namespace lockstep::exercises
