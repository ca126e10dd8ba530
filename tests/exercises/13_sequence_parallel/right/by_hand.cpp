#include "exercises/13_sequence_parallel/task.h"

// Reduce-scatters and all-gathers by direct messages.

namespace lockstep::exercises {

static void gather(World& w, std::span<float> data) {
  const int N = w.size(), r = w.rank();
  std::vector<Work> works;
  for (int k = 1; k < N; ++k) {
    works.push_back(w.send(chunk(data, r, N), (r + k) % N));
    works.push_back(w.receive(chunk(data, (r + N - k) % N, N), (r + N - k) % N));
  }
  for (Work& each : works) each.wait();
}
static void scatter(World& w, std::span<float> data) {
  const int N = w.size(), r = w.rank();
  const auto mine = chunk(data, r, N);
  std::vector<float> in(mine.size());
  for (int k = 1; k < N; ++k) {
    Work a = w.send(chunk(data, (r + k) % N, N), (r + k) % N);
    Work b = w.receive(in, (r + N - k) % N);
    b.wait();
    for (std::size_t i = 0; i < in.size(); ++i) mine[i] += in[i];
    a.wait();
  }
}
Buffer mlp_forward(World& world, const Mlp& block, Buffer x, Saved& saved) {
  Buffer n = world.allocate(block.whole());
  norm(world, block, x, chunk(n.span(), world.rank(), world.size()));
  gather(world, n);
  Buffer h = world.allocate(block.hidden()), term = world.allocate(block.whole());
  column(world, block, n, h);
  row(world, block, h, term);
  scatter(world, term);
  Buffer y = world.allocate(x.size());
  const auto sum = chunk(term.span(), world.rank(), world.size());
  std::transform(x.span().begin(), x.span().end(), sum.begin(), y.span().begin(), std::plus<>{});
  saved.x = std::move(x);
  saved.n = std::move(n);
  saved.h = std::move(h);
  return y;
}
Buffer mlp_backward(World& world, const Mlp& block, Buffer dy, Saved saved, Gradients& gradients) {
  const int t = world.size(), rank = world.rank();
  Buffer whole = world.allocate(block.whole());
  std::ranges::copy(dy.span(), chunk(whole.span(), rank, t).begin());
  gather(world, whole);
  Buffer dh = world.allocate(block.hidden());
  row_backward(world, block, saved.h, whole, dh, gradients.B);
  saved.h.reset();
  column_backward(world, block, saved.n, dh, whole, gradients.A);
  scatter(world, whole);
  norm_backward(world, block, saved.x, chunk(whole.span(), rank, t), dy, gradients.gain);
  Work a = reduce_scatter(world, gradients.gain), b = all_gather(world, gradients.gain);
  a.wait();
  b.wait();
  return dy;
}

}  // namespace lockstep::exercises
