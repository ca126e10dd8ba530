#pragma once

#include <cstdint>
#include <span>

#include "core/comm/transport/peers.h"
#include "core/operations/collective.h"

namespace lockstep {

// The algorithms that do not distinguish nodes. Each comment ends with the time, in the notation of
// Algorithm. After a sum, all members hold the same bits: only one member computes each partial
// sum, or several do from the same two terms.

/// Leaves the sum of chunk i on member i; the member's other chunks hold partial sums. (N−1)(α +
/// ⌈n/N⌉β)
void ring_reduce_scatter(Peers& peers, View data);
/// Copies member i's chunk i to every member. (N−1)(α + ⌈n/N⌉β)
void ring_all_gather(Peers& peers, View data);
/// Copies the root's elements to every member. Up to ⌈log₂N⌉(α + nβ)
void binomial_broadcast(Peers& peers, View data, int root);
/// Sums the data along the edges of a binomial tree, from the leaves to the root, member 0.
/// ⌈log₂N⌉(α + nβ)
void binomial_reduce(Peers& peers, View data);
/// Copies member i's chunk i to the root, which receives N−1 messages. α + (n − n/N)β
void linear_gather(Peers& peers, View data, int root);
/// Sends send_counts[i] contiguous elements of `out` to member i, and receives receive_counts[i]
/// elements from it into `in`. Step k sends to the member k places ahead and receives from the
/// member k places behind. Σ over steps (α + nβ of the larger message)
void pairwise_all_to_all(Peers& peers, View out, std::span<const std::int64_t> send_counts, View in,
                         std::span<const std::int64_t> receive_counts);
/// All-reduces; Algorithm states their times. Member 0 receives all data, and sends the sum to all.
void naive_all_reduce(Peers& peers, View data);
/// In ⌈log₂N⌉ rounds, partners exchange all elements and add them.
void recursive_doubling_all_reduce(Peers& peers, View data);
/// Halves the range of elements that a member owns in each round, and then doubles it again.
void rabenseifner_all_reduce(Peers& peers, View data);
/// Returns on each member only after all members have called it. ⌈log₂N⌉α
void dissemination_barrier(Peers& peers);

}  // namespace lockstep
