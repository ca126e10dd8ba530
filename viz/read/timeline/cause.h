#pragma once

#include <algorithm>
#include <iterator>
#include <optional>

#include "viz/read/timeline/timeline.h"

namespace lockstep {

// What a span waited for, as the trace states it: the links between spans that all analyses share.

/// A span, and where it is.
struct Placed {
  const RankTimeline* rank = nullptr;
  const Lane* lane = nullptr;
  TimelineSpan span;
};

/// Returns the message that a span sends, receives or waits for; null if the trace does not show
/// both of its ends.
const TimelineMessage* message_of(const Timeline& timeline, const TimelineSpan& span);
/// Return the spans at the two ends of a message.
std::optional<Placed> sender_of(const Timeline& timeline, const TimelineMessage& message);
std::optional<Placed> receiver_of(const Timeline& timeline, const TimelineMessage& message);

/// Returns whether an action uses or produces the contents of a message between stages. `span` is
/// the message's span on the action's rank.
bool concerns(const TimelineSpan& span, const TimelineSpan& action);
/// Returns the action whose result a rank sends, and the one that uses what it receives.
std::optional<Placed> producer_of(const Placed& sent);
std::optional<Placed> user_of(const Placed& received);

/// Returns the span that ended a wait: that of its message on the rank's lanes or, for a
/// collective, that of its last message there.
std::optional<Placed> ended_by(const Timeline& timeline, const Placed& wait);

/// Returns what a span waited for, one step back:
///   - for a wait for another stage: the action whose result it waits for or, if that result was
///     computed before the wait began, the message that carries it;
///   - for another wait: the span that ended it;
///   - for a received message: the span that sent it;
///   - for a sent message: the work that produced it (without a stage: the last on its rank), a
///     message of the same collective that the rank had received, or the message before it on its
///     lane, whichever ended last;
///   - for work: the wait before it, or else the work before it.
/// Returns nothing for the first work of a rank, for a wait for all ranks, and for spans whose
/// counterpart the trace does not show.
std::optional<Placed> cause_of(const Timeline& timeline, const Placed& placed);

/// Returns the last span of the lane's action band that ends at or before `time` and satisfies
/// `pass`; of several, the longest.
template <class Pass>
std::optional<TimelineSpan> last_before(const Lane& lane, Picoseconds time, Pass pass) {
  std::optional<TimelineSpan> best;
  for (const SpanRow& row : lane.rows(Band::action)) {
    auto at = std::partition_point(row.begin(), row.end(),
                                   [&](const TimelineSpan& span) { return span.end <= time; });
    while (at != row.begin() && !pass(*std::prev(at))) --at;
    if (at == row.begin()) continue;
    --at;
    if (!best || at->end > best->end || (at->end == best->end && at->start < best->start))
      best = *at;
  }
  return best;
}

/// Returns the first span of the lane's action band that starts at or after `time` and satisfies
/// `pass`.
template <class Pass>
std::optional<TimelineSpan> first_after(const Lane& lane, Picoseconds time, Pass pass) {
  std::optional<TimelineSpan> best;
  for (const SpanRow& row : lane.rows(Band::action)) {
    auto at = std::partition_point(row.begin(), row.end(),
                                   [&](const TimelineSpan& span) { return span.start < time; });
    while (at != row.end() && !pass(*at)) ++at;
    if (at != row.end() && (!best || at->start < best->start)) best = *at;
  }
  return best;
}

/// Whether a span is neither a wait nor communication.
bool is_work(const TimelineSpan& span);

}  // namespace lockstep
