#include "core/comm/choose_algorithm.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "core/comm/between_nodes.h"
#include "core/comm/double_tree.h"

namespace lockstep {

namespace {

/// The time of a message, and the part of it during which the message occupies a link.
struct MessageSeconds {
  double whole = 0, held = 0;
};

/// A group's ranks and their links.
class Machine {
 public:
  Machine(std::span<const int> ranks, const Cluster& cluster)
      : ranks_(ranks),
        cluster_(cluster),
        per_node_(members_per_node(ranks, cluster.ranks_per_node)) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  int per_node() const { return per_node_; }
  /// The number of members of a node that send to other nodes at once, if all members send.
  int senders() const { return std::max(1, per_node_); }

  /// `senders` is the number of members of a node that send at once, if the message crosses nodes.
  MessageSeconds message(double bytes, bool crosses, int senders = 1) const {
    MessageSeconds time = over(crosses ? cluster_.between : cluster_.within, bytes);
    if (!crosses || !cluster_.shared) return time;
    double share = cluster_.shared->uplink / senders;
    if (const auto& cards = cluster_.shared->cards)
      share = std::min(share, cards->bandwidth * std::min(1.0, 1.0 * cards->per_node / senders));
    const double held = std::max(time.held, bytes / share);
    return {time.whole + held - time.held, held};
  }
  MessageSeconds in_switch(double bytes) const { return over(*cluster_.in_switch, bytes); }
  bool crosses(int one, int other) const {
    return ranks_[static_cast<std::size_t>(one)] / cluster_.ranks_per_node !=
           ranks_[static_cast<std::size_t>(other)] / cluster_.ranks_per_node;
  }
  /// Whether any member's partner, whose index differs in the bits of `mask`, is on another node.
  bool crosses(int mask) const {
    for (int i = 0; i < size(); ++i)
      if ((i ^ mask) < size() && crosses(i, i ^ mask)) return true;
    return false;
  }

 private:
  static MessageSeconds over(const Link& link, double bytes) {
    const Link::Segment at = link.at(static_cast<std::int64_t>(bytes));
    return {at.latency_seconds + bytes / at.bandwidth, bytes / at.bandwidth};
  }

  std::span<const int> ranks_;
  const Cluster& cluster_;
  int per_node_;
};

// A ring repeats the same step. Each step takes as long as the slowest link is occupied, or as long
// as an average message, whichever is longer: the α of a slow link passes while the other links
// carry chunks.
double ring(const Machine& machine, double bytes, int rings = 1) {
  const int N = machine.size();
  double average = 0, longest = 0;
  for (int i = 0; i < N; ++i) {
    const auto [whole, held] = machine.message(bytes / N, machine.crosses(i, (i + 1) % N), rings);
    average += whole / N;
    longest = std::max(longest, held);
  }
  return 2 * (N - 1) * std::max(average, longest);
}

double hierarchical(const Machine& machine, double bytes) {
  const int g = machine.per_node(), k = machine.size() / g;
  return 2 * (g - 1) * machine.message(bytes / g, false).whole +
         2 * (k - 1) * machine.message(bytes / machine.size(), true, g).whole;
}

// In a round, a member sends up to four pieces. If a member's neighbours in one tree are on other
// nodes, its neighbours in the other tree are on its own node.
double double_tree(const Machine& machine, double bytes, std::int64_t elements) {
  const int N = machine.size();
  const int pieces = double_tree_pieces(elements, DType::f32, N);
  const bool far = machine.crosses(0, N - 1);
  const MessageSeconds piece = machine.message(bytes / 2 / pieces, far, machine.senders());
  const double last = machine.per_node() == 1 || !far
                          ? piece.held
                          : machine.message(bytes / 2 / pieces, false).held;
  const int most = N == 2 ? 2 : 4;
  return (pieces + 2 * BinaryTree::depth_of(N) - 1) *
         (piece.whole + (most - 2) * piece.held + last);
}

// Both algorithms add a fold and an unfold if the number of members is not a power of two.
double halving_or_doubling(const Machine& machine, double bytes, bool halves) {
  const int N = machine.size();
  const int P = static_cast<int>(std::bit_floor(static_cast<unsigned>(N)));
  double time =
      P == N ? 0 : 2 * machine.message(bytes, machine.crosses(1), machine.senders()).whole;
  for (int mask = 1; mask < P; mask *= 2) {
    const bool far = machine.crosses(mask);
    time += halves ? 2 * machine.message(bytes * mask / P, far, machine.senders()).whole
                   : machine.message(bytes, far, machine.senders()).whole;
  }
  return time;
}

}  // namespace

std::vector<Algorithm> candidates(std::span<const int> ranks, const Cluster& cluster,
                                  bool on_meta) {
  std::vector<Algorithm> found{Algorithm::ring, Algorithm::recursive_doubling,
                               Algorithm::rabenseifner, Algorithm::double_tree};
  const Machine machine{ranks, cluster};
  if (machine.per_node() > 1) {
    found.push_back(Algorithm::hierarchical);
    found.push_back(Algorithm::rings);
  }
  if (on_meta && cluster.in_switch && cluster.on_one_node(ranks))
    found.push_back(Algorithm::in_switch);
  return found;
}

double all_reduce_seconds(Algorithm algorithm, std::int64_t bytes, std::span<const int> ranks,
                          const Cluster& cluster) {
  const Machine machine{ranks, cluster};
  const auto n = static_cast<double>(bytes);
  const int N = machine.size();
  if (N == 1) return 0;
  switch (algorithm) {
    case Algorithm::ring:
      return ring(machine, n);
    case Algorithm::naive:
      return 2 * (machine.message(n, machine.crosses(0, N - 1)).whole +
                  (N - 2) * machine.message(n, machine.crosses(0, N - 1)).held);
    case Algorithm::tree: {
      double time = 0;
      for (int k = 1; k < N; k *= 2) time += 2 * machine.message(n, machine.crosses(k)).whole;
      return time;
    }
    case Algorithm::recursive_doubling:
      return halving_or_doubling(machine, n, false);
    case Algorithm::rabenseifner:
      return halving_or_doubling(machine, n, true);
    case Algorithm::hierarchical:
      return machine.per_node() > 0 ? hierarchical(machine, n) : ring(machine, n);
    case Algorithm::double_tree:
      return double_tree(machine, n, bytes / 4);
    case Algorithm::rings:
      return ring(machine, n / std::max(1, machine.per_node()), std::max(1, machine.per_node()));
    case Algorithm::in_switch:
      return machine.in_switch(n).whole;
  }
  throw std::logic_error("an algorithm without a formula");
}

Algorithm choose_algorithm(std::int64_t bytes, std::span<const int> ranks, const Cluster& cluster,
                           bool on_meta) {
  return std::ranges::min(candidates(ranks, cluster, on_meta), {}, [&](Algorithm each) {
    return all_reduce_seconds(each, bytes, ranks, cluster);
  });
}

Collective with_default_algorithm(Collective collective, std::span<const int> ranks,
                                  const Cluster& cluster) {
  collective.algorithm = Algorithm::ring;
  collective.per_node = 0;
  const bool sums_all = collective.operation == Operation::all_reduce;
  const auto size = static_cast<std::int64_t>(ranks.size());
  if (!cluster.library_collectives || size < 2 || (!sums_all && collective.elements % size != 0))
    return collective;
  const bool on_meta = collective.choice == Collective::Choice::by_cost_or_switch;
  std::vector<Algorithm> found = candidates(ranks, cluster, on_meta);
  std::erase_if(found, [&](Algorithm each) {
    return each != Algorithm::ring && each != Algorithm::hierarchical &&
           !(each == Algorithm::in_switch && sums_all);
  });
  const std::int64_t bytes =
      collective.elements * static_cast<std::int64_t>(size_of(collective.dtype));
  collective.algorithm = std::ranges::min(
      found, {}, [&](Algorithm each) { return all_reduce_seconds(each, bytes, ranks, cluster); });
  if (collective.algorithm == Algorithm::hierarchical)
    collective.per_node = members_per_node(ranks, cluster.ranks_per_node);
  return collective;
}

}  // namespace lockstep
