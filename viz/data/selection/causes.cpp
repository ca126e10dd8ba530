#include "viz/data/selection/causes.h"

#include <algorithm>
#include <limits>

#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

std::optional<Finding> span_finding(const RankTimeline& rank, const Lane& lane,
                                    const TimelineSpan& span) {
  return Finding{.kind = Finding::Kind::span, .rank = &rank, .lane = &lane, .span = span};
}

const Lane* lane_of(const RankTimeline& rank, int tid) {
  const auto found =
      std::ranges::lower_bound(rank.lanes, tid, {}, [](const auto& lane) { return lane->tid(); });
  return found != rank.lanes.end() && (*found)->tid() == tid ? found->get() : nullptr;
}

bool is_work(const TimelineSpan& span) {
  return span.category != Category::wait && span.category != Category::communication &&
         span.category != Category::step;
}

bool is_between_two_stages(const TimelineSpan& span) {
  return span.group == 0 && span.stage >= 0 && span.microbatch >= 0;
}

/// Returns the last span of the lane's action band that ends at or before `time` and satisfies
/// `pass`.
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

/// Returns the wait on a rank's compute lane that overlaps an idle interval.
std::optional<TimelineSpan> wait_at(const Lane& lane, const Interval& time) {
  std::optional<TimelineSpan> found;
  visit_band(lane, Band::action, time, [&](const TimelineSpan& span) {
    if (span.category == Category::wait && span.start < time.end && span.end > time.start)
      found = span;
  });
  return found;
}

/// For a wait for another stage, returns the action whose result it awaits: the producer on the
/// rank that the wait names.
std::optional<Finding> producer_of(const Timeline& timeline, const RankTimeline& rank,
                                   const Lane& lane, const TimelineSpan& wait) {
  // The action that waits: the next one on the wait's stage and microbatch.
  const auto user = first_after(lane, wait.end, [&](const TimelineSpan& span) {
    return span.stage == wait.stage && span.microbatch == wait.microbatch &&
           is_pipeline_action(timeline, span) && span.category != Category::recompute;
  });
  const RankTimeline* peer = timeline.find_rank(wait.peer);
  const Lane* compute = peer ? peer->compute() : nullptr;
  if (!user || !compute || peer == &rank) return {};
  const bool forward = user->category == Category::forward;
  const int stage = wait.stage + (forward ? -1 : 1);
  const auto action = last_before(*compute, wait.end, [&](const TimelineSpan& span) {
    return span.stage == stage && span.microbatch == wait.microbatch && span.step == wait.step &&
           is_pipeline_action(timeline, span) && span.category != Category::recompute &&
           (span.category == Category::forward) == forward &&
           span.category != Category::backward_weight;
  });
  if (!action) return {};
  return span_finding(*peer, *compute, *action);
}

/// Returns whether a wait may be waiting for this message on one of the rank's lanes.
bool may_be_awaited(const TimelineSpan& wait, const TimelineSpan& message) {
  if (message.category != Category::communication || message.group != wait.group) return false;
  if (is_between_two_stages(wait))
    return message.stage == wait.stage && message.microbatch == wait.microbatch &&
           (wait.peer < 0 || message.peer == wait.peer);
  return wait.sequence < 0 || message.sequence < 0 || message.sequence == wait.sequence;
}

/// Returns the message that ended a wait.
std::optional<Finding> message_that_ended(const RankTimeline& rank, const TimelineSpan& wait) {
  std::optional<Finding> best;
  const auto is_received = [&](const Finding& finding) {
    return rank.receiving_lanes.contains(finding.lane->tid());
  };
  for (const auto& lane : rank.lanes) {
    if (lane->is_compute()) continue;
    const auto found = last_before(
        *lane, wait.end, [&](const TimelineSpan& span) { return may_be_awaited(wait, span); });
    if (!found || found->end < wait.start) continue;
    const auto offered = span_finding(rank, *lane, *found);
    // If one message leaves and another arrives at the same time, the arriving one ended the wait.
    if (!best || found->end > best->span.end ||
        (found->end == best->span.end && is_received(*offered) && !is_received(*best)))
      best = offered;
  }
  return best;
}

/// Returns the message that arrives at the end of a span of a lane, or null.
const TimelineMessage* arriving(const Timeline& timeline, int rank, const Lane& lane,
                                const TimelineSpan& span) {
  const auto& messages = timeline.messages();
  const Picoseconds earliest = span.end - timeline.longest_message();
  auto at =
      std::partition_point(messages.begin(), messages.end(),
                           [&](const TimelineMessage& message) { return message.sent < earliest; });
  for (; at != messages.end() && at->sent <= span.end; ++at)
    if (at->to_rank == rank && at->to_lane == lane.tid() && at->received >= span.start &&
        at->received <= span.end)
      return &*at;
  return nullptr;
}

/// Returns the message that leaves within a span of a lane, or null.
const TimelineMessage* leaving(const Timeline& timeline, int rank, const Lane& lane,
                               const TimelineSpan& span) {
  const auto& messages = timeline.messages();
  auto at = std::partition_point(
      messages.begin(), messages.end(),
      [&](const TimelineMessage& message) { return message.sent < span.start; });
  for (; at != messages.end() && at->sent <= span.end; ++at)
    if (at->from_rank == rank && at->from_lane == lane.tid() &&
        (at->sent < span.end || at->sent == span.start))
      return &*at;
  return nullptr;
}

/// Returns the span of a lane in which a message begins (`time` is when it was sent) or ends.
std::optional<Finding> end_of_message(const Timeline& timeline, int rank, int tid, Picoseconds time,
                                      bool sent) {
  const RankTimeline* of = timeline.find_rank(rank);
  const Lane* lane = of ? lane_of(*of, tid) : nullptr;
  if (!lane) return {};
  std::optional<Finding> best;
  const auto distance = [&](const TimelineSpan& span) {
    const Picoseconds at = sent ? span.start : span.end;
    return at > time ? at - time : time - at;
  };
  visit_band(*lane, Band::action, {time, time}, [&](const TimelineSpan& span) {
    if (!best || distance(span) < distance(best->span)) best = span_finding(*of, *lane, span);
  });
  return best;
}

/// Returns what had to end before a rank could send a message: its work or, in a collective, a
/// message that it received for the same collective, whichever ended last.
std::optional<Finding> before_send(const RankTimeline& rank, const TimelineSpan& sent) {
  std::optional<Finding> best;
  const auto offer = [&](const Lane& lane, const std::optional<TimelineSpan>& span) {
    if (span && (!best || span->end > best->span.end)) best = span_finding(rank, lane, *span);
  };
  if (const Lane* compute = rank.compute())
    offer(*compute, last_before(*compute, sent.start, is_work));
  if (sent.group == 0 || sent.sequence < 0) return best;
  for (const auto& lane : rank.lanes)
    if (rank.receiving_lanes.contains(lane->tid()))
      offer(*lane, last_before(*lane, sent.start, [&](const TimelineSpan& span) {
        return span.category == Category::communication && span.group == sent.group &&
               span.sequence == sent.sequence;
      }));
  return best;
}

/// Returns the wait that an object is or, if it is idle time, the one that explains it.
std::optional<TimelineSpan> wait_of(const Finding& finding) {
  if (!finding.rank || !finding.lane || finding.open) return {};
  if (finding.kind == Finding::Kind::idle)
    return wait_at(*finding.lane, {finding.span.start, finding.span.end});
  if (finding.kind == Finding::Kind::span && finding.span.category == Category::wait)
    return finding.span;
  return {};
}

}  // namespace

std::optional<int> awaited_rank(const Timeline& timeline, const Finding& selected) {
  const auto wait = wait_of(selected);
  if (!wait) return {};
  if (wait->peer >= 0 && wait->peer != selected.rank->rank) return wait->peer;
  const auto received = message_that_ended(*selected.rank, *wait);
  const TimelineMessage* message =
      received ? arriving(timeline, selected.rank->rank, *received->lane, received->span) : nullptr;
  if (!message || message->from_rank == selected.rank->rank) return {};
  return message->from_rank;
}

std::optional<Finding> cause_of(const Timeline& timeline, const Finding& selected) {
  if (!selected.rank || !selected.lane || selected.open) return {};
  const RankTimeline& rank = *selected.rank;
  const Lane& lane = *selected.lane;
  if (selected.kind != Finding::Kind::idle && selected.kind != Finding::Kind::span) return {};
  if (const auto wait = wait_of(selected)) {
    const auto message = message_that_ended(rank, *wait);
    if (is_between_two_stages(*wait)) {
      // A bubble waits for the action. The rest of the wait is the message's transfer.
      const auto action = producer_of(timeline, rank, lane, *wait);
      const Picoseconds from =
          selected.kind == Finding::Kind::idle ? selected.span.start : wait->start;
      if (action && (action->span.end > from || !message)) return action;
    }
    return message;
  }
  if (selected.kind == Finding::Kind::idle) {  // without a wait: another tool's trace
    const auto before = last_before(lane, selected.span.start, is_work);
    return before ? span_finding(rank, lane, *before) : std::nullopt;
  }
  const TimelineSpan& span = selected.span;
  if (span.category == Category::communication) {
    if (const TimelineMessage* message = arriving(timeline, rank.rank, lane, span);
        message && message->sent <= span.end) {
      const auto sent =
          end_of_message(timeline, message->from_rank, message->from_lane, message->sent, true);
      if (sent && !(sent->rank == &rank && sent->lane == &lane)) return sent;
    }
    return before_send(rank, span);
  }
  const auto before = last_before(
      lane, span.start, [](const TimelineSpan& each) { return each.category != Category::step; });
  return before ? span_finding(rank, lane, *before) : std::nullopt;
}

std::optional<Finding> effect_of(const Timeline& timeline, const Finding& selected) {
  if (!selected.rank || !selected.lane || selected.open ||
      (selected.kind != Finding::Kind::span && selected.kind != Finding::Kind::idle))
    return {};
  const RankTimeline& rank = *selected.rank;
  const Lane& lane = *selected.lane;
  const TimelineSpan& span = selected.span;
  const Lane* compute = rank.compute();
  const auto work_after = [&](Picoseconds time) -> std::optional<Finding> {
    if (!compute) return {};
    const auto work = first_after(*compute, time, is_work);
    return work ? span_finding(rank, *compute, *work) : std::nullopt;
  };
  if (selected.kind == Finding::Kind::idle || span.category == Category::wait)
    return work_after(span.end);
  if (span.category == Category::communication) {
    if (const TimelineMessage* message = leaving(timeline, rank.rank, lane, span))
      if (const auto received = end_of_message(timeline, message->to_rank, message->to_lane,
                                               message->received, false);
          received && !(received->rank == &rank && received->lane == &lane))
        return received;
    if (compute && is_between_two_stages(span)) {
      const auto user = first_after(*compute, span.end, [&](const TimelineSpan& each) {
        return each.stage == span.stage && each.microbatch == span.microbatch && is_work(each);
      });
      if (user) return span_finding(rank, *compute, *user);
    }
    return work_after(span.end);
  }
  if (is_pipeline_action(timeline, span) && span.category != Category::backward_weight) {
    std::optional<Finding> first;
    for (const auto& each : rank.lanes) {
      if (each->is_compute()) continue;
      const auto sent = first_after(*each, span.end, [&](const TimelineSpan& message) {
        return message.category == Category::communication && message.stage == span.stage &&
               message.microbatch == span.microbatch && message.step == span.step &&
               leaving(timeline, rank.rank, *each, message);
      });
      if (sent && (!first || sent->start < first->span.start))
        first = span_finding(rank, *each, *sent);
    }
    if (first) return first;
  }
  const auto after = first_after(lane, std::max(span.end, span.start + 1),
                                 [](const TimelineSpan& each) { return is_work(each); });
  return after ? span_finding(rank, lane, *after) : std::nullopt;
}

}  // namespace lockstep::viz
