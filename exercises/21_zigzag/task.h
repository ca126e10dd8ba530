#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Returns the positions of rank `rank` of N = `ranks` ranks, in any order. `length` is the length
/// of the sequence, a multiple of 2 N. The positions are 0 to length - 1; each is on exactly one
/// rank, and all ranks have the same number of them, c = length / N.
///
/// In each round k from 0 to N - 1, rank r computes with its own queries and the keys of rank (r -
/// k) mod N. Its work is the number of pairs of a query q and a key j with j <= q. In each round,
/// the numbers of pairs of any two ranks may differ by at most c.
std::vector<int> positions_of(int rank, int ranks, int length);

}  // namespace lockstep::exercises
