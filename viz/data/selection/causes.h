#pragma once

#include <optional>

#include "viz/data/selection/finding.h"

namespace lockstep::viz {

/// Returns what the selected object waited for, one step back:
///   - from a bubble or a wait for another stage: the action whose result it waits for or, if that
///     result was computed before the wait began, the message that carries it;
///   - from another wait: the message that ended it, which is the last one to arrive on the wait's
///     lanes before its end;
///   - from a received message: the span in which it was sent, found by its flow;
///   - from a sent message: the last work on its rank to end before it began or, if that ended
///     later, a message of the same collective that the rank had received;
///   - from work: the wait before it, or else the work before it.
/// Returns nothing if the trace does not show it.
std::optional<Finding> cause_of(const Timeline& timeline, const Finding& selected);

/// Returns what the selected object led to, one step on: from a sent message, the span in which it
/// arrived; from a received message, the work that follows the wait that it ended; from work, the
/// message that carries its result, or else the work after it; from a wait, the work after it.
std::optional<Finding> effect_of(const Timeline& timeline, const Finding& selected);

/// Returns the rank that a wait or a bubble waits for: the one that the trace names or, if it names
/// none, the sender of the message that ended the wait. Returns nothing if the object is not a
/// wait, or if the trace does not show the rank.
std::optional<int> awaited_rank(const Timeline& timeline, const Finding& selected);

}  // namespace lockstep::viz
