#include <cmath>

#include "exercises/33_ring_attention_backward/task.h"

namespace lockstep::exercises {

void attend_backward(const Queries& queries, std::span<const float> D,
                     std::span<const float> keys_values, std::span<float> dq,
                     std::span<float> gradients) {
  const std::size_t c = queries.lse.size(), d = queries.q.size() / c, values = c * d;
  // A key at a time.
  for (std::size_t j = 0; j < c; ++j)
    for (std::size_t i = 0; i < c; ++i) {
      double exponent = -queries.lse[i], ds = -D[i];
      for (std::size_t k = 0; k < d; ++k) {
        exponent += queries.q[i * d + k] * keys_values[j * d + k];
        ds += queries.dy[i * d + k] * keys_values[values + j * d + k];
      }
      const double p = std::exp(exponent);
      for (std::size_t k = 0; k < d; ++k) {
        dq[i * d + k] += static_cast<float>(p * ds * keys_values[j * d + k]);
        gradients[j * d + k] += static_cast<float>(p * ds * queries.q[i * d + k]);
        gradients[values + j * d + k] += static_cast<float>(p * queries.dy[i * d + k]);
      }
    }
}

// The part of a rank's own queries never travels: the sums begin at the next rank, and need only
// N - 1 hops.
void ring_attention_backward(World& world, const AttendBackward& attend, const Queries& queries,
                             Buffer own, std::span<float> dq, std::span<float> gradients) {
  const int N = world.size(), next = (world.rank() + 1) % N, previous = (world.rank() + N - 1) % N;
  std::vector<float> D(queries.lse.size());
  for (std::size_t i = 0; i < queries.q.size(); ++i)
    D[i * D.size() / queries.q.size()] += queries.y[i] * queries.dy[i];

  Buffer keys = std::move(own), sums, sums_in;
  Work sums_out_work, sums_in_work;
  for (int k = 0; k < N; ++k) {
    Buffer keys_in = k + 1 < N ? world.allocate(keys.size()) : Buffer{};
    Work out = k + 1 < N ? world.send(keys, next) : Work{};
    Work in = k + 1 < N ? world.receive(keys_in, previous) : Work{};
    if (k == 0) {
      attend(D, keys, dq, gradients);
    } else {
      Buffer part = world.allocate(keys.size());
      attend(D, keys, dq, part);
      if (k > 1) {
        sums_in_work.wait();
        sums_out_work.wait();
        std::ranges::transform(part.span(), sums_in.span(), part.span().begin(), std::plus{});
      }
      sums = std::move(part);
      if (sums_in.empty()) sums_in = world.allocate(keys.size());
      sums_out_work = world.send(sums, next);
      sums_in_work = world.receive(sums_in, previous);
    }
    if (k + 1 < N) {
      out.wait();
      in.wait();
      keys = std::move(keys_in);
    }
  }
  if (N == 1) return;
  sums_in_work.wait();
  sums_out_work.wait();
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] += sums_in[i];
}

}  // namespace lockstep::exercises
