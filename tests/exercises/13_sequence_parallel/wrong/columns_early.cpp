// diagnosis: column() is given numbers that all_gather()
#include "exercises/13_sequence_parallel/task.h"

namespace lockstep::exercises {

Buffer mlp_forward(World& world, const Mlp& block, Buffer x, Saved& saved) {
  const int t = world.size(), rank = world.rank();
  Buffer n = world.allocate(block.whole());
  norm(world, block, x, chunk(n.span(), rank, t));
  Work w = all_gather(world, n);
  Buffer h = world.allocate(block.hidden());
  column(world, block, n, h);
  w.wait();
  Buffer term = world.allocate(block.whole());
  row(world, block, h, term);
  reduce_scatter(world, term).wait();
  const auto sum = chunk(term.span(), rank, t);
  Buffer y = world.allocate(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] + sum[i];
  saved = {std::move(x), std::move(n), std::move(h)};
  return y;
}
Buffer mlp_backward(World&, const Mlp&, Buffer dy, Saved, Gradients&) {
  return dy;
}

}  // namespace lockstep::exercises
