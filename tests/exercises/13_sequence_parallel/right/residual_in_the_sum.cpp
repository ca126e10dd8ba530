#include "exercises/13_sequence_parallel/task.h"

namespace lockstep::exercises {

Buffer mlp_forward(World& world, const Mlp& block, Buffer x, Saved& saved) {
  const int t = world.size(), rank = world.rank();
  Buffer n = world.allocate(block.whole());
  norm(world, block, x, chunk(n.span(), rank, t));
  all_gather(world, n).wait();
  Buffer h = world.allocate(block.hidden());
  column(world, block, n, h);

  Buffer term = world.allocate(block.whole());
  row(world, block, h, term);
  // Each token is added by the one rank that has it, so the sum contains it once.
  const std::span<float> mine = chunk(term.span(), rank, t);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += x[i];
  reduce_scatter(world, term).wait();
  Buffer y = world.allocate(mine.size());
  std::ranges::copy(mine, y.span().begin());
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

  whole.reset();
  saved.h.reset();
  Buffer dn = world.allocate(block.whole());
  column_backward(world, block, saved.n, dh, dn, gradients.A);
  dh.reset();
  saved.n.reset();
  reduce_scatter(world, dn).wait();
  Buffer dx = world.allocate(dy.size());
  std::ranges::copy(dy.span(), dx.span().begin());
  norm_backward(world, block, saved.x, chunk(dn.span(), rank, t), dx, gradients.gain);
  all_reduce(world, gradients.gain).wait();
  return dx;
}

}  // namespace lockstep::exercises
