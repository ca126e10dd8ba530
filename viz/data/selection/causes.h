#pragma once

#include <optional>

#include "viz/data/selection/finding.h"

namespace lockstep::viz {

/// Returns what the selected object waited for, one step back, as lockstep::cause_of() defines it
/// (viz/read/timeline/cause.h). The cause of idle time is that of the wait that explains it or,
/// without one, the work before it. Returns nothing if the trace does not show it.
std::optional<Finding> cause_of(const Timeline& timeline, const Finding& selected);

/// Returns what the selected object led to, one step on: from a sent message, the span in which it
/// arrived; from a received message, the action that uses it or the work that follows; from an
/// action, the message that carries its result; from other work or a wait, the work after it.
std::optional<Finding> effect_of(const Timeline& timeline, const Finding& selected);

/// Returns the rank that a wait or a bubble waits for: the one that the trace names or, if it names
/// none, the sender of the message that ended the wait. Returns nothing if the object is not a
/// wait, or if the trace does not show the rank.
std::optional<int> awaited_rank(const Timeline& timeline, const Finding& selected);

}  // namespace lockstep::viz
