#include "viz/data/selection/causes.h"

#include <algorithm>

#include "viz/read/timeline/cause.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

std::optional<Finding> found(const std::optional<Placed>& placed) {
  if (!placed) return {};
  return Finding{.kind = Finding::Kind::span,
                 .rank = placed->rank,
                 .lane = placed->lane,
                 .span = placed->span};
}

/// Returns the span that a finding is or, for idle time, the wait that explains it.
std::optional<Placed> span_of(const Finding& finding) {
  if (!finding.rank || !finding.lane || finding.open) return {};
  if (finding.kind == Finding::Kind::span) return Placed{finding.rank, finding.lane, finding.span};
  if (finding.kind != Finding::Kind::idle) return {};
  std::optional<Placed> wait;
  visit_band(*finding.lane, Band::action, {finding.span.start, finding.span.end},
             [&](const TimelineSpan& span) {
               if (span.category == Category::wait && span.start < finding.span.end &&
                   span.end > finding.span.start)
                 wait = Placed{finding.rank, finding.lane, span};
             });
  return wait;
}

std::optional<Finding> work_after(const RankTimeline& rank, const Lane* lane, Picoseconds time) {
  if (!lane) return {};
  const auto work = first_after(*lane, time, is_work);
  return work ? found(Placed{&rank, lane, *work}) : std::nullopt;
}

/// Returns the message that carries an action's result to another rank.
std::optional<Finding> message_with_result(const RankTimeline& rank, const TimelineSpan& action) {
  std::optional<Placed> first;
  for (const auto& lane : rank.lanes) {
    if (lane->is_compute()) continue;
    const auto sent = first_after(*lane, action.end, [&](const TimelineSpan& span) {
      return span.sends() && concerns(span, action);
    });
    if (sent && (!first || sent->start < first->span.start)) first = {&rank, lane.get(), *sent};
  }
  return found(first);
}

}  // namespace

std::optional<int> awaited_rank(const Timeline& timeline, const Finding& selected) {
  const auto wait = span_of(selected);
  if (!wait || wait->span.category != Category::wait) return {};
  if (wait->span.peer >= 0 && wait->span.peer != wait->rank->rank) return wait->span.peer;
  const auto received = ended_by(timeline, *wait);
  const TimelineMessage* message = received ? message_of(timeline, received->span) : nullptr;
  if (!message || message->from_rank == wait->rank->rank) return {};
  return message->from_rank;
}

std::optional<Finding> cause_of(const Timeline& timeline, const Finding& selected) {
  if (auto span = span_of(selected)) {
    // A bubble is the later part of its wait if a message delayed the wait before.
    if (selected.kind == Finding::Kind::idle) span->span.start = selected.span.start;
    return found(lockstep::cause_of(timeline, *span));
  }
  if (selected.kind != Finding::Kind::idle || !selected.rank || !selected.lane) return {};
  const auto before = last_before(*selected.lane, selected.span.start, is_work);
  return before ? found(Placed{selected.rank, selected.lane, *before}) : std::nullopt;
}

std::optional<Finding> effect_of(const Timeline& timeline, const Finding& selected) {
  if (!selected.rank || !selected.lane || selected.open ||
      (selected.kind != Finding::Kind::span && selected.kind != Finding::Kind::idle))
    return {};
  const RankTimeline& rank = *selected.rank;
  const TimelineSpan& span = selected.span;
  const Placed placed{selected.rank, selected.lane, span};
  if (selected.kind == Finding::Kind::idle || span.category == Category::wait)
    return work_after(rank, rank.compute(), span.end);
  if (span.category == Category::communication) {
    if (span.sends())
      if (const TimelineMessage* message = message_of(timeline, span))
        return found(receiver_of(timeline, *message));
    if (span.receives())
      if (const auto user = user_of(placed)) return found(user);
    return work_after(rank, rank.compute(), span.end);
  }
  if (const auto sent = message_with_result(rank, span)) return sent;
  return work_after(rank, selected.lane, std::max(span.end, span.start + 1));
}

}  // namespace lockstep::viz
