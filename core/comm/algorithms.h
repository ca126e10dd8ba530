#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/transport/peers.h"
#include "core/operations/collective.h"

namespace lockstep {

/// Returns how many consecutive members share a node, if the members are in blocks of equal length,
/// each on a node of its own. Returns 0 if all members are on one node, or in no such blocks.
/// `ranks` holds each member's rank; rank r is on node r / ranks_per_node.
int members_per_node(std::span<const int> ranks, int ranks_per_node);
/// Whether all ranks of a group are on one node.
bool on_one_node(std::span<const int> ranks, int ranks_per_node);

/// Leaves the sum over all members on every member. The sums are bitwise identical, because each
/// partial sum is computed by only one member, or by several members from the same two terms.
/// `per_node` is Collective::per_node. Throws std::invalid_argument for Algorithm::rings.
void all_reduce(Algorithm algorithm, Peers& peers, View data, int per_node = 0);
/// Returns the number of scratch elements that the algorithm needs; they have the data's type.
/// `combines` is Transport::combines(); if it is true, some algorithms need no scratch.
std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines, int per_node = 0, DType dtype = DType::f32);

/// A binary tree over all members. Its members on even places have children, those on odd places
/// are leaves; member 0 is the root. The second tree has the places in reverse order if their
/// number is even, and shifted by one if it is odd, so that only one member can have children in
/// both (Sanders, Speck, Träff 2009; the form of the tree is NCCL's).
struct BinaryTree {
  BinaryTree(int rank, int size, bool second);
  int parent = -1;            ///< a member; -1 for the root
  std::vector<int> children;  ///< up to two members
  int depth = 0;              ///< of this member; 0 for the root
  /// Of the whole tree: ⌈log₂N⌉.
  static int depth_of(int size);
};
/// Returns the number m of pieces of each half of the data in a double tree. It minimizes the time
/// of m + 2D − 1 rounds, of α + 2nβ/m each, on links with α/β = 2^18 B (10 µs at 26 GB/s): m is the
/// square root of 2(2D − 1)n/2^18 B, rounded up, but at most the elements of a half, and at
/// least 1.
int double_tree_pieces(std::int64_t elements, DType dtype, int size);

// Each comment below ends with the collective's time, in the notation of Algorithm.

/// Leaves the sum of chunk i on member i; the member's other chunks hold partial sums. (N−1)(α +
/// ⌈n/N⌉β)
void ring_reduce_scatter(Peers& peers, View data);
/// Copies member i's chunk i to every member. (N−1)(α + ⌈n/N⌉β)
void ring_all_gather(Peers& peers, View data);
/// The same two operations in the notation of Algorithm::hierarchical, with all members of a node
/// sending to other nodes at once: (g−1)(α + ⌈n/g⌉β) + (k−1)(α' + ⌈n/N⌉β'). The messages of a step
/// within a node are k, of ⌈n/N⌉ elements each.
void hierarchical_reduce_scatter(Peers& peers, View data, int per_node);
void hierarchical_all_gather(Peers& peers, View data, int per_node);
/// Copies the root's elements to every member. Up to ⌈log₂N⌉(α + nβ)
void binomial_broadcast(Peers& peers, View data, int root);
/// Copies member i's chunk i to the root, which receives N−1 messages. α + (n − n/N)β
void linear_gather(Peers& peers, View data, int root);
/// Sends send_counts[i] contiguous elements of `out` to member i, and receives receive_counts[i]
/// elements from it into `in`. Step k sends to the member k places ahead and receives from the
/// member k places behind. Σ over steps (α + nβ of the larger message)
void pairwise_all_to_all(Peers& peers, View out, std::span<const std::int64_t> send_counts, View in,
                         std::span<const std::int64_t> receive_counts);
/// The same with n/N elements for each member and on k nodes of `per_node` = g members: first, each
/// member sends every other member of its node the elements for all members with that member's
/// place in their nodes; then it sends each of these. The data crosses nodes in k−1 messages of n/k
/// elements instead of (k−1)g of n/N, and g−1 messages of n/g stay within the node.
/// Takes n elements of scratch; copies within a member take no modelled time.
/// (g−1)(α + n/g β) + (k−1)(α' + n/k β')
void two_hop_all_to_all(Peers& peers, View out, View in, int per_node);
/// Returns on each member only after all members have called it. ⌈log₂N⌉α
void dissemination_barrier(Peers& peers);

/// Runs this member's part in a collective: one of the algorithms above. `data` is what it works
/// on in place; an all_to_all sends from `data` and receives into `in`. Views may lack
/// storage if `peers` accesses no data.
void run(const Collective& collective, Peers& peers, View data, View in = {});

}  // namespace lockstep
