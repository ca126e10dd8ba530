#include "exercises/33_ring_attention_backward/task.h"

#include <algorithm>
#include <cmath>
#include <functional>

// Whole matrices, as in a textbook: scores, probabilities, dp and ds, each c x c.

namespace lockstep::exercises {

namespace {
using Numbers = std::vector<float>;
/// a (n x k) times the transposed b (m x k).
Numbers times_transposed(std::span<const float> a, std::span<const float> b, std::size_t k) {
  const std::size_t n = a.size() / k, m = b.size() / k;
  Numbers result(n * m);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < m; ++j)
      for (std::size_t l = 0; l < k; ++l) result[i * m + j] += a[i * k + l] * b[j * k + l];
  return result;
}
Numbers transposed(const Numbers& a, std::size_t columns) {
  Numbers result;
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = j; i < a.size(); i += columns) result.push_back(a[i]);
  return result;
}
/// to += a (n x m) times b (m x k).
void add_product(std::span<float> to, const Numbers& a, std::span<const float> b, std::size_t k) {
  const std::size_t m = b.size() / k;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t l = 0; l < k; ++l) to[i / m * k + l] += a[i] * b[i % m * k + l];
}
}  // namespace
void attend_backward(const Queries& queries, std::span<const float> D,
                     std::span<const float> keys_values, std::span<float> dq,
                     std::span<float> gradients) {
  const std::size_t c = queries.lse.size(), d = queries.q.size() / c;
  const auto K = keys_values.first(c * d), V = keys_values.subspan(c * d);
  Numbers P = times_transposed(queries.q, K, d), dS = times_transposed(queries.dy, V, d);
  for (std::size_t i = 0; i < c * c; ++i) {
    P[i] = std::exp(P[i] - queries.lse[i / c]);
    dS[i] = P[i] * (dS[i] - D[i / c]);
  }
  add_product(dq, dS, K, d);
  add_product(gradients.first(c * d), transposed(dS, c), queries.q, d);
  add_product(gradients.subspan(c * d), transposed(P, c), queries.dy, d);
}
void ring_attention_backward(World& world, const AttendBackward& attend, const Queries& queries,
                             Buffer own, std::span<float> dq, std::span<float> gradients) {
  const int N = world.size(), right = (world.rank() + 1) % N, left = (world.rank() + N - 1) % N;
  const std::size_t n = own.size(), d = queries.q.size() / queries.lse.size();
  Buffer D = world.allocate(queries.lse.size());
  for (std::size_t i = 0; i < queries.y.size(); ++i) D[i / d] += queries.y[i] * queries.dy[i];
  Buffer part = world.allocate(n);
  if (N == 1) {
    attend(D, own, dq, part);
    std::ranges::copy(part.span(), gradients.begin());
    return;
  }
  Buffer next = world.allocate(n), in = world.allocate(n), out;
  Work out_sent, in_received;
  for (int k = 0; k < N; ++k) {
    Work sent, received;
    if (k + 1 < N) sent = world.send(own, right), received = world.receive(next, left);
    attend(D, own, dq, part);
    if (k > 0) {
      in_received.wait(), out_sent.wait();
      std::transform(part.span().begin(), part.span().end(), in.span().begin(), part.span().begin(),
                     std::plus<>{});
    }
    out = std::move(part);
    out_sent = world.send(out, right);
    in_received = world.receive(k + 1 < N ? in.span() : gradients, left);
    if (k + 1 == N) break;
    received.wait(), sent.wait();
    std::swap(own, next);
    part = world.allocate(n);
  }
  in_received.wait(), out_sent.wait();
}

}  // namespace lockstep::exercises
