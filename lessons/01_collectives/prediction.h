#pragma once

#include <algorithm>
#include <bit>
#include <optional>

#include "lessons/01_collectives/message_by_message.h"

namespace lockstep {

/// The closed form (Thakur, Rabenseifner, Gropp 2005) if it is exact, otherwise empty. Depending on
/// the algorithm, it may require a power-of-two number of ranks, chunks of equal size, or equal
/// links.
inline std::optional<AllReduceTime> closed_form(Algorithm algorithm, std::int64_t n, int N,
                                                const Cluster& cluster) {
  const int rounds =
      static_cast<int>(std::bit_width(static_cast<unsigned>(N))) - 1;  // log2 N, rounded down
  const bool power = std::has_single_bit(static_cast<unsigned>(N));
  AllReduceTime time;
  if (N == 1) return AllReduceTime{.formula = "0"};
  const int node = node_of(N, cluster.ranks_per_node);
  if ((algorithm == Algorithm::hierarchical || algorithm == Algorithm::rings) && node == 0)
    algorithm = Algorithm::ring;
  if (algorithm == Algorithm::in_switch) {
    const Link::Segment link = cluster.in_switch.value().at(4 * n);
    return AllReduceTime{picoseconds(link.latency_seconds),
                         picoseconds(4 * static_cast<double>(n) / link.bandwidth),
                         "α + nβ of the switch (a cost only)"};
  }
  if (algorithm == Algorithm::hierarchical) {
    // All ranks keep in step if all chunks are equal.
    if (n % N != 0) return {};
    if (node > 1) time.add(cluster, 0, 1, n / node, 2 * (node - 1));
    time.add(cluster, 0, node, n / N, 2 * (N / node - 1));
    time.formula = "2(g-1)(α + ⌈n/g⌉β) + 2(k-1)(α' + ⌈n/N⌉β')";
    return time;
  }
  if (algorithm == Algorithm::ring && N > cluster.ranks_per_node) {
    // The rank before a slow link has its next chunk long before the link is free again, so its
    // 2(N-1) messages leave back to back, and α counts only once, for the last message. This
    // requires that the slow link takes so long per chunk that all hops between two slow links fit
    // into that time: α <= (gap - 1)(βn/N - α' - β'n/N). Here gap is the number of hops from one
    // slow link to the next, and α' and β' are those of a link within a node.
    const int full = cluster.ranks_per_node;
    AllReduceTime step, hop;
    step.add(cluster, 0, full, n / N);
    hop.add(cluster, 0, std::min(full - 1, 1), n / N);
    const int gap = N % full == 0 ? full : std::min(full, N % full);
    const Picoseconds spare = step.bandwidth - hop.total();
    if (n % N != 0 || spare < 0 || step.latency > (gap - 1) * spare) return {};
    return AllReduceTime{step.latency, 2 * (N - 1) * step.bandwidth,
                         "α + 2(N-1)⌈n/N⌉β of the slow link"};
  }
  // A longer message takes longer, and also holds its lane for longer.
  const bool one_line = cluster.within.segments.empty() && cluster.within.protocols.empty();
  if (N > cluster.ranks_per_node) return {};
  switch (algorithm) {
    case Algorithm::ring:
      if (n % N != 0 && !one_line) return {};
      time.add(cluster, 0, 1, (n + N - 1) / N, 2 * (N - 1));
      time.formula = "2(N-1)α + 2(N-1)⌈n/N⌉β";
      return time;
    case Algorithm::naive:
      // All messages arrive at one rank, one after another, and later leave it one after another; α
      // counts only for the last. (The paper's ports are single: each message costs α.)
      time.add(cluster, 0, 1, n, 2);
      time.bandwidth *= N - 1;
      time.formula = "2α + 2(N-1)nβ";
      return time;
    case Algorithm::tree:
      if (!power) return {};
      time.add(cluster, 0, 1, n, 2 * rounds);
      time.formula = "2log₂N(α + nβ)";
      return time;
    case Algorithm::recursive_doubling:
      if (!power) return {};
      time.add(cluster, 0, 1, n, rounds);
      time.formula = "log₂N(α + nβ)";
      return time;
    case Algorithm::rabenseifner:
      if (!power || n % N != 0) return {};
      for (int half = N / 2; half >= 1; half /= 2) time.add(cluster, 0, 1, half * (n / N), 2);
      time.formula = "2log₂N α + 2((N-1)/N)nβ";
      return time;
    default:
      return {};
  }
}

/// Predicts an all-reduce of n f32 elements between the first N ranks of `cluster`: by the closed
/// form if there is one, otherwise message by message. Rounds each message once, as the modelled
/// clock does.
inline AllReduceTime predict_all_reduce(Algorithm algorithm, std::int64_t n, int N,
                                        const Cluster& cluster) {
  const auto closed = closed_form(algorithm, n, N, cluster);
  return closed ? *closed : play_messages(algorithm, n, N, cluster);
}

/// The array's size divided by the time, in bytes per second: the rate from the point of view of
/// the caller.
inline double algorithm_bandwidth(std::int64_t bytes, double time_seconds) {
  return static_cast<double>(bytes) / time_seconds;
}
/// The rate on each link if the algorithm sends the minimum number of bytes (nccl-tests,
/// PERFORMANCE.md). This rate can be compared across N, and with the link's own bandwidth.
inline double bus_bandwidth(std::int64_t bytes, double time_seconds, int N) {
  return algorithm_bandwidth(bytes, time_seconds) * 2 * (N - 1) / N;
}

}  // namespace lockstep
