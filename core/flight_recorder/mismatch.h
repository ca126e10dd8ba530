#pragma once

#include <vector>

#include "core/flight_recorder/calls.h"
#include "core/flight_recorder/stall.h"

namespace lockstep::flight {

struct CallOfRank {
  int rank = 0;
  const Call* call = nullptr;
};

/// Divides calls of one collective, by ascending rank, into those that fit together: the same
/// operation on tensors of the same shape and type, as far as the operation requires it (the root
/// of a scatter has other inputs than the rest, and all_to_all may have any). The largest part is
/// first; unknown shapes fit all.
std::vector<SameCall> same_calls(const std::vector<CallOfRank>& calls);

}  // namespace lockstep::flight
