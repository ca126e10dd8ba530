#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/collective.h"
#include "core/time/cluster.h"

namespace lockstep {

/// Returns the algorithms among which choose_algorithm() chooses for a group of these ranks: those
/// that need nodes only if the group has equal blocks of members on several nodes, and in_switch
/// only on the meta device, on one node of a cluster whose switches can add.
std::vector<Algorithm> candidates(std::span<const int> ranks, const Cluster& cluster, bool on_meta);

/// Returns the seconds that an all-reduce of `bytes` bytes takes by its formula (see Algorithm),
/// with α and β of the group's links at the size of the algorithm's messages, and each message's
/// share of the cards and the uplink of its node. An estimate: it ignores ports, leaves, and other
/// groups; and groups that are not a power of two, and trees across nodes, are estimates anyway.
/// in_switch needs a cluster that has one.
double all_reduce_seconds(Algorithm algorithm, std::int64_t bytes, std::span<const int> ranks,
                          const Cluster& cluster);

/// Returns the candidate with the least seconds; the first of several.
Algorithm choose_algorithm(std::int64_t bytes, std::span<const int> ranks, const Cluster& cluster,
                           bool on_meta);

/// Returns an all-reduce, a reduce-scatter or an all-gather with the algorithm that it has if its
/// caller does not choose one: a ring or, if the cluster has the collectives of a library, the
/// cheapest of ring, hierarchical and, of an all-reduce whose Collective::choice allows it,
/// in_switch. These need no scratch memory if receives combine. Reduce-scatters and all-gathers
/// with unequal chunks are rings.
Collective with_default_algorithm(Collective collective, std::span<const int> ranks,
                                  const Cluster& cluster);

}  // namespace lockstep
