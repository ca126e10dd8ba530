#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Returns the positions of rank `rank` of N = `ranks` ranks, in any order. Several documents are
/// packed into one sequence: `documents` has their lengths, in order, each at least 1. Their sum T
/// is a multiple of 2 N, and the positions are 0 to T - 1. A document may be longer than T / N.
///
/// The token at place i of its document, counted from 0, attends to itself and to the i tokens
/// before it in the same document. All ranks gather the keys and values of all tokens. The work of
/// a rank is therefore its number of pairs of one of its queries and a key that this query attends
/// to: i + 1 pairs for the token at place i.
///
/// - Each position is on exactly one rank, and each rank has T / N positions.
/// - No rank has more pairs than the mean of all ranks plus the larger of two numbers: 5 % of the
///   mean, and the length of the longest document. The latter is the work of the most expensive
///   token, which can't be divided.
///
/// Each rank calls it separately, with the same documents. All calls must lead to the same
/// division.
std::vector<int> positions_of(int rank, int ranks, const std::vector<int>& documents);

}  // namespace lockstep::exercises
