#include "viz/read/timeline/cause.h"

namespace lockstep {

namespace {

const Lane* lane_of(const RankTimeline& rank, int tid) {
  const auto found =
      std::ranges::lower_bound(rank.lanes, tid, {}, [](const auto& lane) { return lane->tid(); });
  return found != rank.lanes.end() && (*found)->tid() == tid ? found->get() : nullptr;
}

/// Returns the span of a lane with these times and this message.
std::optional<Placed> span_of_end(const Timeline& timeline, int rank, int tid, std::uint64_t id,
                                  const Interval& time) {
  const RankTimeline* of = timeline.find_rank(rank);
  const Lane* lane = of ? lane_of(*of, tid) : nullptr;
  if (!lane) return {};
  const auto found = first_after(*lane, time.start, [&](const TimelineSpan& span) {
    return span.start > time.start || (span.message == id && span.end == time.end);
  });
  if (!found || found->start != time.start) return {};
  return Placed{of, lane, *found};
}

std::optional<Placed> placed(const RankTimeline& rank, const Lane& lane,
                             const std::optional<TimelineSpan>& span) {
  return span ? std::optional{Placed{&rank, &lane, *span}} : std::nullopt;
}

bool is_of_collective(const TimelineSpan& span, const TimelineSpan& other) {
  return span.category == Category::communication && span.group == other.group &&
         span.sequence == other.sequence && span.group != 0 && span.sequence >= 0;
}

/// Of spans that take no time, and start together, none comes before another.
bool is_earlier(const TimelineSpan& span, const TimelineSpan& other) {
  return span.start < other.start || other.start < other.end;
}

/// Returns what had to end before a rank could send a message, or begin its part of a collective.
std::optional<Placed> before_send(const Placed& sent) {
  const RankTimeline& rank = *sent.rank;
  std::optional<Placed> best = producer_of(sent);
  const auto offer = [&](const Lane& lane, const std::optional<TimelineSpan>& span) {
    if (span && (!best || span->end > best->span.end)) best = placed(rank, lane, span);
  };
  if (const Lane* compute = rank.compute(); compute && !best)
    offer(*compute, last_before(*compute, sent.span.start, [&](const TimelineSpan& span) {
      return is_work(span) && is_earlier(span, sent.span);
    }));
  for (const auto& lane : rank.lanes)
    offer(*lane, last_before(*lane, sent.span.start, [&](const TimelineSpan& span) {
      return span.receives() && is_of_collective(span, sent.span) && is_earlier(span, sent.span);
    }));
  offer(*sent.lane, last_before(*sent.lane, sent.span.start, [&](const TimelineSpan& span) {
    return span.category == Category::communication && is_earlier(span, sent.span);
  }));
  return best;
}

}  // namespace

bool is_work(const TimelineSpan& span) {
  return span.category != Category::wait && span.category != Category::communication &&
         span.category != Category::step;
}

const TimelineMessage* message_of(const Timeline& timeline, const TimelineSpan& span) {
  if (span.message == 0) return nullptr;
  const auto& messages = timeline.messages();
  auto at =
      std::partition_point(messages.begin(), messages.end(), [&](const TimelineMessage& message) {
        return message.sent < span.start - timeline.longest_message();
      });
  const TimelineMessage* found = nullptr;
  for (; at != messages.end() && at->sent <= span.end + timeline.longest_message(); ++at) {
    if (at->id != span.message) continue;
    // Later phases reuse ids. A wait may end a little before its message does.
    const Picoseconds end = span.sends() ? at->left : at->received;
    if (!found || end <= span.end) found = &*at;
  }
  return found;
}

std::optional<Placed> sender_of(const Timeline& timeline, const TimelineMessage& message) {
  return span_of_end(timeline, message.from_rank, message.from_lane, message.id,
                     {message.sent, message.left});
}

std::optional<Placed> receiver_of(const Timeline& timeline, const TimelineMessage& message) {
  return span_of_end(timeline, message.to_rank, message.to_lane, message.id,
                     {message.arriving, message.received});
}

bool concerns(const TimelineSpan& span, const TimelineSpan& action) {
  if (!action.is_action() || action.category == Category::recompute) return false;
  if (action.category == Category::backward_weight || span.payload == Payload::other) return false;
  return action.stage == span.stage && action.microbatch == span.microbatch &&
         action.step == span.step &&
         (action.category == Category::forward) == (span.payload == Payload::activations);
}

std::optional<Placed> producer_of(const Placed& sent) {
  const Lane* compute = sent.rank->compute();
  if (!compute || !sent.span.is_between_stages()) return {};
  return placed(*sent.rank, *compute,
                last_before(*compute, sent.span.start,
                            [&](const TimelineSpan& span) { return concerns(sent.span, span); }));
}

std::optional<Placed> user_of(const Placed& received) {
  const Lane* compute = received.rank->compute();
  if (!compute || !received.span.is_between_stages()) return {};
  return placed(*received.rank, *compute,
                first_after(*compute, received.span.end, [&](const TimelineSpan& span) {
                  return concerns(received.span, span);
                }));
}

std::optional<Placed> ended_by(const Timeline& timeline, const Placed& wait) {
  if (const TimelineMessage* message = message_of(timeline, wait.span))
    return wait.span.sends() ? sender_of(timeline, *message) : receiver_of(timeline, *message);
  std::optional<Placed> best;
  for (const auto& lane : wait.rank->lanes) {
    if (lane->is_compute()) continue;
    const auto found = last_before(*lane, wait.span.end, [&](const TimelineSpan& span) {
      return is_of_collective(span, wait.span) ||
             (wait.span.message != 0 && span.message == wait.span.message);
    });
    if (!found) continue;
    const Placed offered{wait.rank, lane.get(), *found};
    // If one message leaves and another arrives at the same time, the arriving one ended the wait.
    if (!best || found->end > best->span.end ||
        (found->end == best->span.end && found->receives() && !best->span.receives()))
      best = offered;
  }
  return best;
}

std::optional<Placed> cause_of(const Timeline& timeline, const Placed& from) {
  const TimelineSpan& span = from.span;
  if (span.category == Category::wait) {
    const TimelineMessage* message = message_of(timeline, span);
    if (message && span.receives() && span.is_between_stages())
      if (const auto sent = sender_of(timeline, *message))
        if (auto action = producer_of(*sent); action && action->span.end > span.start)
          return action;
    return ended_by(timeline, from);
  }
  if (span.category == Category::communication) {
    if (span.receives()) {
      if (const TimelineMessage* message = message_of(timeline, span))
        return sender_of(timeline, *message);
    }
    return before_send(from);
  }
  return placed(*from.rank, *from.lane,
                last_before(*from.lane, span.start, [&](const TimelineSpan& each) {
                  return each.category != Category::step && is_earlier(each, span);
                }));
}

}  // namespace lockstep
