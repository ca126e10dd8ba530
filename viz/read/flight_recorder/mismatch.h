#pragma once

#include <vector>

#include "viz/read/flight_recorder/calls.h"
#include "viz/read/flight_recorder/stall.h"

namespace lockstep::flight {

/// A rank's call.
struct CallOfRank {
  int rank = 0;
  const Call* call = nullptr;
};

/// Divides the calls of one collective, given by ascending rank, into sets that fit together: the
/// same operation on tensors of the same shapes and types, as far as the operation requires it.
/// (The inputs of a scatter's root differ from those of the other ranks, and those of an all_to_all
/// may be of any size.) Tensors of unknown shape fit all others. The largest set comes first.
std::vector<SameCall> same_calls(const std::vector<CallOfRank>& calls);

}  // namespace lockstep::flight
