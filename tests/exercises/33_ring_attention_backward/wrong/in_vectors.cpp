// diagnosis: it takes memory that is not counted
#include "exercises/33_ring_attention_backward/task.h"

#include <cmath>

namespace lockstep::exercises {

void attend_backward(const Queries& queries, std::span<const float> D,
                     std::span<const float> keys_values, std::span<float> dq,
                     std::span<float> gradients) {
  const auto& [q, y, dy, lse] = queries;
  const std::size_t c = lse.size(), d = q.size() / c;
  const auto keys = keys_values.first(c * d), values = keys_values.last(c * d);
  const auto dkeys = gradients.first(c * d), dvalues = gradients.last(c * d);
  for (std::size_t i = 0; i < c; ++i)
    for (std::size_t j = 0; j < c; ++j) {
      float score = 0, dp = 0;
      for (std::size_t k = 0; k < d; ++k) {
        score += q[i * d + k] * keys[j * d + k];
        dp += dy[i * d + k] * values[j * d + k];
      }
      const float p = std::exp(score - lse[i]), ds = p * (dp - D[i]);
      for (std::size_t k = 0; k < d; ++k) {
        dq[i * d + k] += ds * keys[j * d + k];
        dkeys[j * d + k] += ds * q[i * d + k];
        dvalues[j * d + k] += p * dy[i * d + k];
      }
    }
}

void ring_attention_backward(World& world, const AttendBackward& attend, const Queries& queries,
                             Buffer own, std::span<float> dq, std::span<float> gradients) {
  const int N = world.size(), right = (world.rank() + 1) % N, left = (world.rank() + N - 1) % N;
  const std::size_t c = queries.lse.size(), d = queries.q.size() / c;
  Buffer D = world.allocate(c);
  for (std::size_t i = 0; i < c * d; ++i) D[i / d] += queries.y[i] * queries.dy[i];
  if (N == 1) return attend(D, own, dq, gradients);

  Buffer held = std::move(own), arriving = world.allocate(held.size());
  std::vector<float> sums, arriving_sums(held.size());
  Work sums_sent, sums_received;
  for (int round = 0; round < N; ++round) {
    const bool is_last = round == N - 1;
    Work sent = is_last ? Work{} : world.send(held, right);
    Work received = is_last ? Work{} : world.receive(arriving, left);
    std::vector<float> part(held.size());
    attend(D, held, dq, part);
    if (round > 0) {
      sums_sent.wait();
      sums_received.wait();
      for (std::size_t i = 0; i < part.size(); ++i) part[i] += arriving_sums[i];
    }
    sums = std::move(part);
    sums_sent = world.send(sums, right);
    sums_received = world.receive(is_last ? gradients : std::span{arriving_sums}, left);
    if (is_last) break;
    sent.wait();
    received.wait();
    std::swap(held, arriving);
  }
  sums_sent.wait();
  sums_received.wait();
}

}  // namespace lockstep::exercises
