#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/comm/transport/peers.h"

namespace lockstep {

/// How an all-reduce goes about it. The last column is its time for n bytes on N ranks, where a
/// message takes α + nβ (Thakur, Rabenseifner, Gropp 2005); r = 1 where N is no power of two: then
/// those over the next lower one, P, hand their elements in first and get the sums back last.
enum class Algorithm {
  ring,   ///< 2(N−1)(α + ⌈n/N⌉β): the least bytes, but N rounds
  naive,  ///< 2α + 2(N−1)nβ: all to member 0, which adds and sends back
  tree,   ///< up to 2⌈log₂N⌉(α + nβ): reduce up a binomial tree, broadcast down
  recursive_doubling,  ///< log₂P (α + nβ), r: up to 2(α + nβ) more: the fewest rounds, all bytes
  rabenseifner,  ///< 2log₂P α + 2((P−1)/P)nβ + 2r(α + nβ): halve and add, double and copy
};
const char* name_of(Algorithm algorithm);
/// Of the name, with - or _ between words. Throws UsageError that lists them.
Algorithm algorithm_of(const std::string& name);
constexpr Algorithm all_reduce_algorithms[] = {Algorithm::ring, Algorithm::naive, Algorithm::tree,
                                               Algorithm::recursive_doubling,
                                               Algorithm::rabenseifner};

/// Every member ends with the sum over members. All members get the same bits: each sum is made
/// once, or by two members from the same two terms.
void all_reduce(Algorithm algorithm, Peers& peers, View data);
/// How many elements of scratch, of their type, it needs for n elements; fewer where receives
/// combine.
std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines);

/// Member i ends with the sum of chunk i; the other chunks hold partial sums. (N−1)(α + ⌈n/N⌉β)
void ring_reduce_scatter(Peers& peers, View data);
/// Member i brings chunk i; all end with all of them. (N−1)(α + ⌈n/N⌉β)
void ring_all_gather(Peers& peers, View data);
/// The root's elements reach everybody. Up to ⌈log₂N⌉(α + nβ)
void binomial_broadcast(Peers& peers, View data, int root);
/// Member i's chunk i reaches the root, which pays for N−1 messages. α + (n − n/N)β
void linear_gather(Peers& peers, View data, int root);
/// send_counts[i] elements of `out`, one after another, go to member i; from member i come
/// receive_counts[i] into `in`. In step k with those k places off. Σ over steps (α + the larger β)
void pairwise_all_to_all(Peers& peers, View out, std::span<const std::int64_t> send_counts, View in,
                         std::span<const std::int64_t> receive_counts);
/// Nobody is through before everybody has come. ⌈log₂N⌉α
void dissemination_barrier(Peers& peers);

}  // namespace lockstep
