#pragma once

#include <span>

#include "core/comm/transport/peers.h"

namespace lockstep {

// Collectives that distinguish nodes: on k nodes of `per_node` = g members each, member m is on
// node m / g, and the members with the same place in their nodes form a rail. The times are in the
// notation of Algorithm.

/// Returns how many consecutive members share a node, if the members are in blocks of equal length,
/// each block on a different node. Returns 0 if all members are on one node, or do not form such
/// blocks. `ranks` holds each member's rank; rank r is on node r / ranks_per_node.
int members_per_node(std::span<const int> ranks, int ranks_per_node);

/// Leaves the sum over all members on every member: a reduce-scatter within the node, an all-reduce
/// of the member's chunk along the rail, and an all-gather within the node. 2(g−1)(α + ⌈n/g⌉β) +
/// 2(k−1)(α' + ⌈n/N⌉β')
void hierarchical_all_reduce(Peers& peers, View data, int per_node);
/// Give the results of ring_reduce_scatter() and ring_all_gather(), but all members of a node send
/// to other nodes at once. Each step within a node sends k messages of ⌈n/N⌉ elements. (g−1)(α +
/// ⌈n/g⌉β) + (k−1)(α' + ⌈n/N⌉β')
void hierarchical_reduce_scatter(Peers& peers, View data, int per_node);
void hierarchical_all_gather(Peers& peers, View data, int per_node);
/// pairwise_all_to_all() with n/N elements for each member, in two hops: first, each member sends
/// every other member of its node the elements for all members with that member's place in their
/// nodes; then each member forwards the elements along its rail. The data crosses nodes in k−1
/// messages of n/k elements instead of (k−1)g of n/N, and g−1 messages of n/g stay within the node.
/// Takes n elements of scratch; copies within a member take no modelled time. (g−1)(α + n/g β) +
/// (k−1)(α' + n/k β')
void two_hop_all_to_all(Peers& peers, View out, View in, int per_node);

}  // namespace lockstep
