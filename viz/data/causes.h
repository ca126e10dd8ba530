#pragma once

#include <optional>

#include "viz/data/finding.h"

namespace lockstep::viz {

/// Returns what the selected object waited for, one step back:
///   - from a bubble or a wait for another stage: the action whose result it waits for, or, if that
///     was computed before the wait began, the message that carries it;
///   - from another wait: the message that ended it: of those that arrived on the wait's lanes, the
///     last one to arrive before its end;
///   - from a received message: the span in which it was sent, along its flow;
///   - from a sent message: the work on its rank that ended last before it began or, if it ended
///     later, a message of the same collective that the rank had received;
///   - from work: the wait before it, or else the work before it.
/// Nothing if the trace does not show it.
std::optional<Finding> cause_of(const Timeline& timeline, const Finding& selected);

/// Returns what the selected object led to, one step on: from a sent message, the span in which it
/// arrived; from a received message, the work that follows the wait that it ended; from work, the
/// message that carries its result, or else the work after it; from a wait, the work after it.
std::optional<Finding> effect_of(const Timeline& timeline, const Finding& selected);

}  // namespace lockstep::viz
