#pragma once

#include <algorithm>
#include <optional>

#include "core/trace/timeline.h"

namespace lockstep {

/// The rank that the others wait for in a step: the last to enter a collective, and the latest
/// compared with the median of the collective's ranks.
struct Straggler {
  int rank = 0;
  NameId operation = 0;  ///< the collective that it enters latest, such as "all_reduce"
  NameId group = 0;
  int sequence = -1;     ///< of the collective in its group
  Picoseconds late = 0;  ///< from the median rank's entry into this collective to the straggler's
  Picoseconds compute = 0;         ///< its compute time in the step, see StepParts
  Picoseconds median_compute = 0;  ///< that of the median rank
  /// Returns by how much the step would be shorter at most if the straggler kept up. It may lose
  /// more time than it is late for one collective, since it is late for several.
  Picoseconds cost() const { return std::max(late, compute - median_compute); }
  bool operator==(const Straggler&) const = default;
};

/// Returns the straggler of a step, or nothing if no rank enters a collective later than the median
/// rank by at least 2 % of the step. A rank enters a collective with its first message of it or, if
/// the trace shows no messages within collectives (NCCL, MPI), with the collective's span. Only
/// collectives that all ranks of a group enter with a message count.
std::optional<Straggler> straggler(const Timeline& timeline, int step);
constexpr double least_late = 0.02;

}  // namespace lockstep
