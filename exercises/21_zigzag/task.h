#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Returns the positions that rank `rank` of N = `ranks` ranks has, in any order. `length` is the
/// length of the sequence, a multiple of 2 N. The positions are 0 to length - 1; each is on exactly
/// one rank, and all ranks have the same number of them, c = length / N.
///
/// In round k of N, from 0 on, rank r computes with its own queries and the keys of rank (r - k)
/// mod N. Its work is the number of pairs of a query q and a key j with j <= q. In no round may one
/// rank have more than c pairs more than another.
std::vector<int> positions_of(int rank, int ranks, int length);

}  // namespace lockstep::exercises
