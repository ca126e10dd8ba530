#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/operations/collective.h"

namespace lockstep {

/// The number of elements in chunk i of N: the first n mod N chunks have one extra element.
inline std::int64_t chunk_elements(std::int64_t n, int N, int i) {
  return n / N + (i % N < n % N ? 1 : 0);
}

/// The number of the first N ranks that share a node, if they fill several nodes of `per_node`
/// ranks; otherwise 0.
inline int node_of(int N, int per_node) {
  return N > per_node && N % per_node == 0 ? per_node : 0;
}

/// The number of elements that a member of a ring of N sends in 2(N-1) messages: 2n minus two
/// chunks.
inline std::int64_t ring_elements(std::int64_t n, int N, int r) {
  return N == 1 ? 0 : 2 * n - chunk_elements(n, N, r) - chunk_elements(n, N, r + 1);
}

/// The parents and children of one of the two trees on which the double tree sums: members are
/// numbered by place, and the second tree orders the ranks differently.
struct Tree {
  int N;
  bool second;

  int rank_at(int place) const {
    return !second ? place : N % 2 == 0 ? N - 1 - place : (place + 1) % N;
  }
  /// The place above: the lowest bit is cleared and the next one is set, or, if there is no such
  /// place, the lowest bit is only cleared.
  int parent(int place) const {
    const int bit = place & -place;
    const int up = (place ^ bit) | bit << 1;
    return up < N ? up : place ^ bit;
  }
  int depth(int place) const { return place == 0 ? 0 : 1 + depth(parent(place)); }
  /// The number of each rank's links to other ranks.
  std::vector<int> links() const {
    std::vector<int> count(static_cast<std::size_t>(N));
    for (int place = 1; place < N; ++place)
      for (const int end : {place, parent(place)}) ++count[static_cast<std::size_t>(rank_at(end))];
    return count;
  }
};

/// Elements that a rank sends, by the class of link.
struct Sent {
  std::int64_t within = 0, between = 0;
  std::int64_t total() const { return within + between; }
};

/// The elements that rank r of N sends, with `node` ranks on each of several nodes.
///
/// Hierarchical: a ring in the node, then one between the nodes for the rank's own chunk. Rings: in
/// ring i, the ranks of a node follow one another from rank i on, so rank i - 1 sends to the next
/// node.
inline Sent sent_by_hierarchical(std::int64_t n, int N, int node, int r) {
  return {ring_elements(n, node, r % node),
          ring_elements(chunk_elements(n, node, r % node), N / node, r / node)};
}
inline Sent sent_by_rings(std::int64_t n, int N, int node, int r) {
  const int rings = static_cast<int>(std::clamp<std::int64_t>(n / N, 1, node));
  Sent sent;
  for (int i = 0; i < rings; ++i) {
    const int place = (r % node - i + node) % node;  // within the node, in the order of the ring
    const std::int64_t elements =
        ring_elements(chunk_elements(n, rings, i), N, r / node * node + place);
    (place == node - 1 ? sent.between : sent.within) += elements;
  }
  return sent;
}

/// The number of elements that rank r of N sends in an all-reduce of n elements; `node` is
/// node_of(). In the switch, a rank sends its elements once.
///
/// In the ring's reduce-scatter, a rank sends every chunk except its own, whose sum it completes.
/// In the all-gather, it sends every chunk except the one that its right neighbour completed.
/// Recursive halving and doubling work on P ranks, the largest power of two <= N: each of the first
/// N - P even ranks sends all its elements to the odd rank after it, and receives the sums at the
/// end.
inline std::int64_t elements_sent(Algorithm algorithm, std::int64_t n, int N, int r, int node = 0) {
  if (N == 1) return 0;
  const int P = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  const int pairs = N - P;
  const bool paired = r < 2 * pairs;
  const int place = !paired ? r - pairs : r % 2 == 1 ? r / 2 : -1;
  switch (algorithm) {
    case Algorithm::ring:
      return ring_elements(n, N, r);
    case Algorithm::naive:
      return r == 0 ? (N - 1) * n : n;
    case Algorithm::tree: {  // up to the parent, down to each child
      std::int64_t messages = r == 0 ? 0 : 1;
      for (int k = 1; k < N; k *= 2) messages += r < k && r + k < N ? 1 : 0;
      return messages * n;
    }
    case Algorithm::recursive_doubling:
      if (place < 0) return n;
      return (std::bit_width(static_cast<unsigned>(P)) - 1 + (paired ? 1 : 0)) * n;
    case Algorithm::rabenseifner: {
      if (place < 0) return n;
      // Halving sends everything except the rank's own 1/P; doubling sends all sums that are
      // complete so far.
      std::int64_t sent = n - chunk_elements(n, P, place) + (paired ? n : 0);
      for (int have = 1; have < P; have *= 2)
        for (int i = 0; i < have; ++i) sent += chunk_elements(n, P, place / have * have + i);
      return sent;
    }
    case Algorithm::hierarchical:
      return node > 0 ? sent_by_hierarchical(n, N, node, r).total() : ring_elements(n, N, r);
    case Algorithm::double_tree: {  // each half over each link of its tree
      const auto at = static_cast<std::size_t>(r);
      return chunk_elements(n, 2, 0) * Tree{N, false}.links()[at] +
             chunk_elements(n, 2, 1) * Tree{N, true}.links()[at];
    }
    case Algorithm::rings:
      return node > 0 ? sent_by_rings(n, N, node, r).total() : ring_elements(n, N, r);
    case Algorithm::in_switch:
      return n;
  }
  return 0;
}

}  // namespace lockstep
