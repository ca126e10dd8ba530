#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "core/comm/algorithms.h"
#include "core/time/cluster.h"

namespace lockstep {

/// Elements of chunk i of n among N: the first n mod N chunks have one more.
inline std::int64_t chunk_elements(std::int64_t n, int N, int i) {
  return n / N + (i % N < n % N ? 1 : 0);
}

/// What rank r of N sends in an all-reduce of n elements, in elements.
///
/// Ring: the reduce-scatter sends all chunks but one's own (which is complete by then), the
/// all-gather all but the right neighbour's (which that one has). Recursive halving and doubling
/// work on P, the largest power of two that is not above N: the first N - P even ranks hand all
/// they have to the odd one behind them, and get it back at the end.
inline std::int64_t elements_sent(Algorithm algorithm, std::int64_t n, int N, int r) {
  if (N == 1) return 0;
  const int P = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const int pairs = N - P;
  const bool paired = r < 2 * pairs;
  const int place = !paired ? r - pairs : r % 2 == 1 ? r / 2 : -1;
  switch (algorithm) {
    case Algorithm::ring:
      return 2 * n - chunk_elements(n, N, r) - chunk_elements(n, N, r + 1);
    case Algorithm::naive:
      return r == 0 ? (N - 1) * n : n;
    case Algorithm::tree: {  // up to one's parent, down to each of one's children
      std::int64_t messages = r == 0 ? 0 : 1;
      for (int k = 1; k < N; k *= 2) messages += r < k && r + k < N ? 1 : 0;
      return messages * n;
    }
    case Algorithm::recursive_doubling:
      if (place < 0) return n;
      return (std::bit_width(static_cast<unsigned>(P)) - 1 + (paired ? 1 : 0)) * n;
    case Algorithm::rabenseifner: {
      if (place < 0) return n;
      // Halving gives away all but one's own part of P; doubling passes on what one has by then.
      std::int64_t sent = n - chunk_elements(n, P, place) + (paired ? n : 0);
      for (int have = 1; have < P; have *= 2)
        for (int i = 0; i < have; ++i) sent += chunk_elements(n, P, place / have * have + i);
      return sent;
    }
  }
  return 0;
}

/// The time of an all-reduce by its closed form (Thakur, Rabenseifner, Gropp 2005), in the two
/// parts that it is made of: what grows with the number of messages, and what grows with the bytes.
struct AllReduceTime {
  Picoseconds latency = 0;
  Picoseconds bandwidth = 0;
  bool exact = false;  ///< otherwise an upper bound
  const char* formula = "";
  Picoseconds total() const { return latency + bandwidth; }

  /// A message's time, `times` times.
  void add(const Cluster& cluster, int from, int to, std::int64_t elements, int times = 1) {
    latency += times * cluster.latency(from, to, 4 * elements);
    bandwidth += times * cluster.transfer(from, to, 4 * elements);
  }
};

namespace all_reduce_time {

/// The ring where some of its links are slow. The rank before a slow link has its next chunk long
/// before the link is free again, so its 2(N-1) messages leave one right after the other, and α
/// counts once, for the last: 2(N-1)(n/N)β + α. That is exact where N divides n, and where the slow
/// link's time for a chunk is so long that all that happens between two crossings fits in:
/// α <= (gap - 1)(βn/N - α' - β'n/N), with gap hops from one slow link to the next, and the near
/// link's α' and β'. Otherwise every step with the slow link's α and β: an upper bound.
inline AllReduceTime ring_across_nodes(std::int64_t n, int N, const Cluster& cluster) {
  const int node = cluster.ranks_per_node;
  const std::int64_t chunk = (n + N - 1) / N;
  AllReduceTime step, hop;
  step.add(cluster, 0, node, chunk);
  hop.add(cluster, 0, std::min(node - 1, 1), chunk);
  const int gap = N % node == 0 ? node : std::min(node, N % node);
  const Picoseconds spare = step.bandwidth - hop.total();
  if (n % N == 0 && spare >= 0 && step.latency <= (gap - 1) * spare)
    return {step.latency, 2 * (N - 1) * step.bandwidth, true, "α + 2(N-1)⌈n/N⌉β of the slow link"};
  return {2 * (N - 1) * std::max(step.latency, hop.latency),
          2 * (N - 1) * std::max(step.bandwidth, hop.bandwidth), false,
          "2(N-1)α + 2(N-1)⌈n/N⌉β of the slow link"};
}

/// Halving and doubling: who is whose partner, in rounds that last as long as their longest
/// message.
class Rounds {
 public:
  Rounds(AllReduceTime& time, int N, const Cluster& cluster)
      : time_(time), cluster_(cluster), P_(static_cast<int>(std::bit_floor(unsigned(N)))), N_(N) {}

  void among_power_of_two(int mask, std::int64_t elements) {
    longest(P_, elements, [&](int i) { return std::pair{member(i), member(i ^ mask)}; });
  }
  /// Those over the power of two hand in, and get back.
  void fold_and_unfold(std::int64_t elements) {
    longest(N_ - P_, elements, [](int i) { return std::pair{2 * i, 2 * i + 1}; });
    longest(N_ - P_, elements, [](int i) { return std::pair{2 * i + 1, 2 * i}; });
  }
  /// One level of a binomial tree, up or down.
  void level(int k, std::int64_t elements) {
    longest((N_ - k + 2 * k - 1) / (2 * k), elements, [&](int i) {
      return std::pair{2 * k * i + k, 2 * k * i};
    });
  }

 private:
  int member(int place) const { return place < N_ - P_ ? 2 * place + 1 : place + N_ - P_; }

  template <class Pair>
  void longest(int messages, std::int64_t elements, Pair pair) {
    AllReduceTime longest;
    for (int i = 0; i < messages; ++i) {
      AllReduceTime one;
      const auto [from, to] = pair(i);
      one.add(cluster_, from, to, elements);
      if (one.total() > longest.total()) longest = one;
    }
    time_.latency += longest.latency;
    time_.bandwidth += longest.bandwidth;
  }

  AllReduceTime& time_;
  const Cluster& cluster_;
  int P_;
  int N_;
};

}  // namespace all_reduce_time

/// Between the first N ranks of `cluster`, n f32 elements. Rounded as the modelled clock rounds:
/// each message once.
inline AllReduceTime predict_all_reduce(Algorithm algorithm, std::int64_t n, int N,
                                        const Cluster& cluster) {
  if (N == 1) return {.exact = true, .formula = "0"};
  const int P = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const bool alike = N <= cluster.ranks_per_node;
  const bool power = P == N;
  AllReduceTime time;
  all_reduce_time::Rounds rounds{time, N, cluster};
  switch (algorithm) {
    case Algorithm::ring:
      if (!alike) return all_reduce_time::ring_across_nodes(n, N, cluster);
      time.add(cluster, 0, 1, (n + N - 1) / N, 2 * (N - 1));
      time.exact = true;
      time.formula = "2(N-1)α + 2(N-1)⌈n/N⌉β";
      break;
    case Algorithm::naive: {
      // All arrive at one rank, one after another, and then leave it so: α counts for the last.
      for (int i = 1; i < N; ++i) time.add(cluster, 0, i, n, 2);
      time.latency = 2 * std::max(cluster.latency(0, 1, 4 * n), cluster.latency(0, N - 1, 4 * n));
      time.exact = alike;
      time.formula = "2α + 2(N-1)nβ";
      break;
    }
    case Algorithm::tree:
      for (int k = 1; k < N; k *= 2)
        for (int up_and_down = 0; up_and_down < 2; ++up_and_down) rounds.level(k, n);
      time.exact = alike && power;
      time.formula = "2⌈log₂N⌉(α + nβ)";
      break;
    case Algorithm::recursive_doubling:
      for (int mask = 1; mask < P; mask *= 2) rounds.among_power_of_two(mask, n);
      rounds.fold_and_unfold(n);
      time.exact = alike && power;
      time.formula = power ? "log₂N(α + nβ)" : "(log₂P + 2)(α + nβ)";
      break;
    case Algorithm::rabenseifner:
      // The largest half of a round: of P chunks as many as `half`, the first ones being longer.
      for (int half = P / 2; half >= 1; half /= 2)
        for (int there_and_back = 0; there_and_back < 2; ++there_and_back)
          rounds.among_power_of_two(half, half * (n / P) + std::min<std::int64_t>(half, n % P));
      rounds.fold_and_unfold(n);
      time.exact = alike && power && n % P == 0;
      time.formula = power ? "2log₂N α + 2((N-1)/N)nβ" : "2log₂P α + 2((P-1)/P)nβ + 2(α + nβ)";
      break;
  }
  return time;
}

/// Bytes of the whole array by the time: what the user of an all-reduce sees, in bytes per second.
inline double algorithm_bandwidth(std::int64_t bytes, double time_seconds) {
  return static_cast<double>(bytes) / time_seconds;
}
/// What each link carries meanwhile if the algorithm sends the least that is possible (nccl-tests,
/// PERFORMANCE.md): comparable across N, and with the link's own rate.
inline double bus_bandwidth(std::int64_t bytes, double time_seconds, int N) {
  return algorithm_bandwidth(bytes, time_seconds) * 2 * (N - 1) / N;
}

}  // namespace lockstep
