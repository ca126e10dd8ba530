#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/comm/transport/peers.h"

namespace lockstep {

/// An all-reduce algorithm. Each comment gives the algorithm's time for n bytes on N ranks if a
/// message of n bytes takes α + nβ (Thakur, Rabenseifner, Gropp 2005). P is the largest power of
/// two ≤ N. r is 0 if P = N. Otherwise r is 1, because N − P ranks first send their elements to a
/// partner, and receive the sums from it at the end.
enum class Algorithm {
  ring,   ///< 2(N−1)(α + ⌈n/N⌉β): fewest bytes, but 2(N−1) rounds
  naive,  ///< 2α + 2(N−1)nβ: all send to member 0, which adds, then sends the sums back
  tree,   ///< up to 2⌈log₂N⌉(α + nβ): reduces up a binomial tree, then broadcasts down it
  recursive_doubling,  ///< (log₂P + 2r)(α + nβ) at most: fewest rounds; messages are full size
  rabenseifner,  ///< 2log₂P α + 2((P−1)/P)nβ + 2r(α + nβ): recursive halving, then doubling
};
const char* name_of(Algorithm algorithm);
/// Looks up an algorithm by name; words may be separated by - or _. Throws UsageError with the list
/// of names.
Algorithm algorithm_of(const std::string& name);
constexpr Algorithm all_reduce_algorithms[] = {Algorithm::ring, Algorithm::naive, Algorithm::tree,
                                               Algorithm::recursive_doubling,
                                               Algorithm::rabenseifner};

/// Leaves the sum over all members on every member. The sums are bitwise identical, because each
/// partial sum is computed by only one member, or by several members from the same two terms.
void all_reduce(Algorithm algorithm, Peers& peers, View data);
/// Returns the number of scratch elements that the algorithm needs; they have the data's type.
/// `combines` is Transport::combines(); if it is true, some algorithms need no scratch.
std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines);

// Each comment below ends with the collective's time, in the notation above.

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

}  // namespace lockstep
