#pragma once

#include <optional>

#include "core/flight_recorder/job.h"
#include "core/flight_recorder/stall.h"
#include "core/timeline/timeline.h"

namespace lockstep::flight {

/// Returns whether the trace ends while ranks are still in operations with others. Such a run has
/// stalled or failed, or its trace is still being written.
bool ends_in_waits(const Timeline& timeline);

/// Describes the end of a run's trace as its ranks' flight recorders would: each rank's last
/// collective in each group, and its open operations. A collective has the number that its group
/// gave it. A group's members are the ranks that exchanged messages in it or, if these are fewer
/// than its size, those that the mesh gives it. A receive is not pending if its message has been
/// sent: its rank only has to take it.
Job job_of(const Timeline& timeline);

/// Finds out who waits for whom at the end of a trace; nothing unless it ends in waits.
std::optional<Stall> stall_of(const Timeline& timeline);

}  // namespace lockstep::flight
