#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/collective.h"
#include "core/time/cluster.h"

namespace lockstep {

/// Returns the algorithms from which choose_algorithm() chooses for a group of these ranks. The
/// list includes algorithms that distinguish nodes only if the group has equal blocks of members on
/// several nodes, and in_switch only on the meta device, on one node of a cluster whose switches
/// can add.
std::vector<Algorithm> candidates(std::span<const int> ranks, const Cluster& cluster, bool on_meta);

/// Returns the predicted seconds of an all-reduce of `bytes` bytes: evaluates its formula (see
/// Algorithm) with the α and β of the group's links at the size of the algorithm's messages, and
/// with each message's share of its node's cards and uplink. This is an estimate, which ignores
/// ports, leaves, and other groups. The formulas themselves are estimates for trees across nodes,
/// and if the number of ranks is not a power of two. in_switch needs a cluster whose switches can
/// add.
double all_reduce_seconds(Algorithm algorithm, std::int64_t bytes, std::span<const int> ranks,
                          const Cluster& cluster);

/// Returns the candidate with the shortest predicted time; of several, the first.
Algorithm choose_algorithm(std::int64_t bytes, std::span<const int> ranks, const Cluster& cluster,
                           bool on_meta);

/// Returns an all-reduce, a reduce-scatter or an all-gather with its default algorithm, for callers
/// that do not choose one. The default is a ring or, if the cluster models a library's collectives,
/// the cheapest of ring, hierarchical and, for an all-reduce whose Collective::choice allows it,
/// in_switch. None of these needs scratch memory if receives combine. Reduce-scatters and
/// all-gathers with unequal chunks are rings.
Collective with_default_algorithm(Collective collective, std::span<const int> ranks,
                                  const Cluster& cluster);

}  // namespace lockstep
