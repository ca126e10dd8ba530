#pragma once

#include <optional>

#include "viz/read/flight_recorder/stall.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::flight {

/// Determines which rank waits for which at the end of a trace. Returns nothing unless some rank is
/// still in an operation with others. Such a run has stalled or failed, or its trace is still being
/// written.
std::optional<Stall> stall_of(const Timeline& timeline);

}  // namespace lockstep::flight
