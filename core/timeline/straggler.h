#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/timeline/analysis.h"

namespace lockstep {

/// The rank that the others wait for in a step. It enters a collective later than the median rank.
/// If several ranks do, some of them are late because they waited for another one, so the straggler
/// is the one that waits least in the step. A rank that waits for longer than the median rank is
/// never the straggler.
struct Straggler {
  int rank = 0;
  NameId operation = 0;  ///< the collective for which it is latest, such as "all_reduce"
  NameId group = 0;
  int sequence = -1;     ///< of the collective in its group
  Picoseconds late = 0;  ///< from the median rank's entry into this collective to the straggler's
  Picoseconds compute = 0;         ///< its compute time in the step, see StepParts
  Picoseconds median_compute = 0;  ///< that of the median rank of the collective
  Picoseconds others_wait = 0;     ///< the median rank's StepParts::late_peer
  /// Returns an estimate of the time that the step would save if this rank kept up with the median
  /// rank. A rank can be late for several collectives of a step, so it is the largest of its delay
  /// for this one, its additional compute time, and the time for which the others wait.
  Picoseconds cost() const { return std::max({late, compute - median_compute, others_wait}); }
  bool operator==(const Straggler&) const = default;
};

/// A straggler's delay counts if it is at least this fraction of the step; less is jitter.
constexpr double least_late = 0.02;

/// Returns the straggler of a step, or nothing if no rank enters a collective later than the median
/// rank by at least `least_late`. `parts` are the step's step_parts().
///
/// A rank enters a collective with its first message of it or, if the trace shows no messages
/// within collectives (NCCL, MPI), with the collective's span. Only collectives that all ranks of a
/// group enter count. Several groups may have one name, such as the dp groups of a dp × tp mesh:
/// messages show which ranks belong together; without messages, no straggler is found in them.
std::optional<Straggler> straggler(const Timeline& timeline, int step,
                                   const std::vector<StepParts>& parts);

}  // namespace lockstep
