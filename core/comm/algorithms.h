#pragma once

#include <cstdint>
#include <span>

#include "core/comm/transport/peers.h"
#include "core/operations/collective.h"

namespace lockstep {

/// Leaves the sum over all members on every member. The sums are bitwise identical, because each
/// partial sum is computed by only one member, or by several members from the same two terms.
/// `per_node` is Collective::per_node. Throws std::invalid_argument for Algorithm::rings.
void all_reduce(Algorithm algorithm, Peers& peers, View data, int per_node = 0);
/// Returns the number of scratch elements that the algorithm needs; they have the data's type.
/// `combines` is Transport::combines(); if it is true, some algorithms need no scratch.
std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines, int per_node = 0, DType dtype = DType::f32);

// Each comment below ends with the collective's time, in the notation of Algorithm.

/// Leaves the sum of chunk i on member i; the member's other chunks hold partial sums. (N−1)(α +
/// ⌈n/N⌉β)
void ring_reduce_scatter(Peers& peers, View data);
/// Copies member i's chunk i to every member. (N−1)(α + ⌈n/N⌉β)
void ring_all_gather(Peers& peers, View data);
/// Copies the root's elements to every member. Up to ⌈log₂N⌉(α + nβ)
void binomial_broadcast(Peers& peers, View data, int root);
/// Copies member i's chunk i to the root, which receives N−1 messages. α + (n − n/N)β
void linear_gather(Peers& peers, View data, int root);
/// Sends send_counts[i] contiguous elements of `out` to member i, and receives receive_counts[i]
/// elements from it into `in`. Step k sends to the member k places ahead and receives from the
/// member k places behind. Σ over steps (α + nβ of the larger message)
void pairwise_all_to_all(Peers& peers, View out, std::span<const std::int64_t> send_counts, View in,
                         std::span<const std::int64_t> receive_counts);
/// Returns on each member only after all members have called it. ⌈log₂N⌉α
void dissemination_barrier(Peers& peers);

/// Runs this member's part in a collective: one of the algorithms above, in between_nodes.h or in
/// double_tree.h. It works on `data` in place, except that an all_to_all sends from `data` and
/// receives into `in`. Views may lack storage if `peers` accesses no data.
void run(const Collective& collective, Peers& peers, View data, View in = {});

}  // namespace lockstep
