#include "core/comm/run_collective.h"

#include <span>
#include <stdexcept>

#include "core/comm/algorithms.h"
#include "core/comm/between_nodes.h"
#include "core/comm/double_tree.h"

namespace lockstep {

namespace {

void all_reduce(Algorithm algorithm, Peers& peers, View data, int per_node) {
  if (peers.size() == 1) return;
  switch (algorithm) {
    case Algorithm::ring:
      ring_reduce_scatter(peers, data);
      return ring_all_gather(peers, data);
    case Algorithm::naive:
      return naive_all_reduce(peers, data);
    case Algorithm::tree:
      binomial_reduce(peers, data);
      return binomial_broadcast(peers, data, 0);
    case Algorithm::recursive_doubling:
      return recursive_doubling_all_reduce(peers, data);
    case Algorithm::rabenseifner:
      return rabenseifner_all_reduce(peers, data);
    case Algorithm::hierarchical:
      return hierarchical_all_reduce(peers, data, per_node > 0 ? per_node : peers.size());
    case Algorithm::double_tree:
      return double_tree_all_reduce(peers, data);
    case Algorithm::rings:
      break;
    case Algorithm::in_switch:
      return peers.add_in_switch(data);
  }
  throw std::invalid_argument("one group has one ring; Rings has several");
}

}  // namespace

std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines, int per_node, DType dtype) {
  if (ranks == 1) return 0;
  if (algorithm == Algorithm::recursive_doubling)
    return elements;  // both partners send all elements at once
  if (combines || algorithm == Algorithm::in_switch) return 0;
  const auto part = [](std::int64_t whole, std::int64_t parts) {
    return (whole + parts - 1) / parts;
  };
  switch (algorithm) {
    case Algorithm::ring:
      return part(elements, ranks);
    case Algorithm::hierarchical:
      // With one member per node, everything happens between the nodes.
      return part(elements, per_node > 1 ? per_node : ranks);
    case Algorithm::double_tree:  // a member adds up to three pieces at once
      return 3 * part(part(elements, 2), double_tree_pieces(elements, dtype, ranks));
    default:
      return elements;
  }
}

void run(const Collective& collective, Peers& peers, View data, View in) {
  const std::span<const std::int64_t> counts{collective.counts};
  const std::size_t members = counts.size() / 2;
  switch (collective.operation) {
    case Operation::broadcast:
      return binomial_broadcast(peers, data, collective.root);
    case Operation::all_reduce:
      return all_reduce(collective.algorithm, peers, data, collective.per_node);
    case Operation::reduce_scatter:
      if (collective.per_node > 0)
        return hierarchical_reduce_scatter(peers, data, collective.per_node);
      return ring_reduce_scatter(peers, data);
    case Operation::all_gather:
      if (collective.per_node > 0) return hierarchical_all_gather(peers, data, collective.per_node);
      return ring_all_gather(peers, data);
    case Operation::gather:
      return linear_gather(peers, data, collective.root);
    case Operation::all_to_all:
      if (collective.per_node > 0) return two_hop_all_to_all(peers, data, in, collective.per_node);
      return pairwise_all_to_all(peers, data, counts.first(members), in, counts.subspan(members));
    case Operation::barrier:
      return dissemination_barrier(peers);
    case Operation::send:
      break;
  }
  throw std::logic_error("send is not a collective");
}

}  // namespace lockstep
