#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/comm/transport/peers.h"

namespace lockstep {

/// The algorithm of an all-reduce. Each comment gives its time for n bytes on N ranks if a message
/// of n bytes takes α + nβ (Thakur, Rabenseifner, Gropp 2005). P is the largest power of two ≤ N.
/// If P < N, the ranks beyond P first send their elements to a partner and receive the sums last;
/// then r = 1, otherwise r = 0.
enum class Algorithm {
  ring,   ///< 2(N−1)(α + ⌈n/N⌉β): the fewest bytes, but 2(N−1) rounds
  naive,  ///< 2α + 2(N−1)nβ: all send to member 0, which adds and sends back
  tree,   ///< up to 2⌈log₂N⌉(α + nβ): reduce up a binomial tree, broadcast down
  recursive_doubling,  ///< (log₂P + 2r)(α + nβ) at most: fewest rounds, all bytes
  rabenseifner,  ///< 2log₂P α + 2((P−1)/P)nβ + 2r(α + nβ): recursive halving, doubling
};
const char* name_of(Algorithm algorithm);
/// Looks up an algorithm by name, with - or _ between words. Throws UsageError with the list of
/// names.
Algorithm algorithm_of(const std::string& name);
constexpr Algorithm all_reduce_algorithms[] = {Algorithm::ring, Algorithm::naive, Algorithm::tree,
                                               Algorithm::recursive_doubling,
                                               Algorithm::rabenseifner};

/// Leaves the sum over members on every member, bitwise identical: each sum is computed once, or by
/// two members from the same two terms.
void all_reduce(Algorithm algorithm, Peers& peers, View data);
/// The elements of scratch, of the data's type, that the algorithm needs for n elements; fewer if
/// receives combine.
std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines);

/// Member i ends with the sum of chunk i; the other chunks hold partial sums. (N−1)(α + ⌈n/N⌉β)
void ring_reduce_scatter(Peers& peers, View data);
/// Member i contributes chunk i; every member ends with all chunks. (N−1)(α + ⌈n/N⌉β)
void ring_all_gather(Peers& peers, View data);
/// Copies the root's elements to every member. Up to ⌈log₂N⌉(α + nβ)
void binomial_broadcast(Peers& peers, View data, int root);
/// Copies member i's chunk i to the root, which pays for N−1 messages. α + (n − n/N)β
void linear_gather(Peers& peers, View data, int root);
/// Sends send_counts[i] contiguous elements of `out` to member i, and receives receive_counts[i]
/// elements from it into `in`. Step k sends to the member k places ahead and receives from the one
/// k places behind. Σ over steps (α + the larger nβ)
void pairwise_all_to_all(Peers& peers, View out, std::span<const std::int64_t> send_counts, View in,
                         std::span<const std::int64_t> receive_counts);
/// Returns on no member before every member has entered. ⌈log₂N⌉α
void dissemination_barrier(Peers& peers);

}  // namespace lockstep
