#pragma once

#include <cstdint>

#include "core/comm/transport/peers.h"
#include "core/operations/collective.h"

namespace lockstep {

/// Runs this member's part in a collective: one of the functions of algorithms.h, between_nodes.h
/// or double_tree.h. It works on `data` in place, except that an all_to_all sends from `data` and
/// receives into `in`. Views may lack storage if `peers` accesses no data. Throws
/// std::invalid_argument for Algorithm::rings.
void run(const Collective& collective, Peers& peers, View data, View in = {});

/// Returns the number of scratch elements that the algorithm needs; they have the data's type.
/// `combines` is Transport::combines(); if it is true, some algorithms need no scratch.
std::int64_t all_reduce_scratch(Algorithm algorithm, std::int64_t elements, int ranks,
                                bool combines, int per_node = 0, DType dtype = DType::f32);

}  // namespace lockstep
