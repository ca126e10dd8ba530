#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/timeline/analysis.h"
#include "core/timeline/visit_band.h"

namespace lockstep {

namespace {

/// Indexes the spans of a rank's lanes by their ends, to find the span in which a message arrived.
/// A lane is indexed when it is first searched.
class Receives {
 public:
  /// Indexes the spans that end within `ends`.
  Receives(const RankTimeline& rank, const Interval& ends) : rank_(rank), ends_(ends) {}

  /// Returns the span of a lane that ends exactly at `end`, or null if there is none.
  const TimelineSpan* ending(int tid, Picoseconds end) {
    const auto [lane, fresh] = lanes_.try_emplace(tid);
    if (fresh) index(tid, lane->second);
    const auto found = lane->second.find(end);
    return found == lane->second.end() ? nullptr : found->second;
  }

 private:
  using ByEnd = std::unordered_map<Picoseconds, const TimelineSpan*>;
  void index(int tid, ByEnd& by_end) const {
    const auto lane = std::lower_bound(rank_.lanes.begin(), rank_.lanes.end(), tid,
                                       [](const auto& each, int id) { return each->tid() < id; });
    if (lane == rank_.lanes.end() || (*lane)->tid() != tid) return;
    for (const SpanRow& row : (*lane)->rows(Band::action)) {
      auto at = std::partition_point(
          row.begin(), row.end(), [&](const TimelineSpan& span) { return span.end < ends_.start; });
      for (; at != row.end() && at->end <= ends_.end; ++at) by_end.try_emplace(at->end, &*at);
    }
  }

  const RankTimeline& rank_;
  Interval ends_;
  std::unordered_map<int, ByEnd> lanes_;
};

/// The times of a step's messages, from one rank's point of view.
struct MessageTimes {
  std::vector<Interval> in_flight;  ///< messages to the rank
  std::vector<Interval> arriving;   ///< the parts of in_flight during which bytes occupy its lane
  /// For sends whose receiver was late: the time at which bytes began to move, keyed by the lane
  /// and start of the send's span.
  std::map<std::pair<int, Picoseconds>, Picoseconds> moved;
};

/// A message's arrival on its receiver's lane.
struct Arrival {
  std::size_t to = 0;  ///< the receiver's index in the timeline
  int lane = 0;
  Picoseconds sent = 0, received = 0;
  Picoseconds start = 0;  ///< start of its span on the lane
};

/// Messages on a lane arrive in order, so a late message also holds up the messages behind it, even
/// if they were sent long before. Until the late message arrives, the rank is waiting for it, and
/// the messages behind it do not count as in flight. If several messages arrive at the same
/// instant, the one sent last counts as late.
void leave_out_held_up(std::vector<Arrival>& arrivals) {
  std::ranges::sort(arrivals, {}, [](const Arrival& each) {
    return std::tuple{each.to, each.lane, each.received, each.sent};
  });
  for (std::size_t first = 0, next = 0; first < arrivals.size(); first = next) {
    const Arrival now = arrivals[first];
    const auto on_lane = [&](const Arrival& each) {
      return each.to == now.to && each.lane == now.lane;
    };
    const bool follows = first > 0 && on_lane(arrivals[first - 1]);
    const Picoseconds before =
        follows ? arrivals[first - 1].received : std::numeric_limits<Picoseconds>::min();
    for (next = first; next < arrivals.size() && on_lane(arrivals[next]) &&
                       arrivals[next].received == now.received;)
      ++next;
    for (std::size_t i = first; i < next; ++i) {
      Picoseconds& sent = arrivals[i].sent;
      sent = arrivals[next - 1].sent;
      if (arrivals[i].start == before) sent = std::max(sent, before);
    }
  }
}

std::vector<MessageTimes> message_times(const Timeline& timeline, const Interval& window) {
  const auto& ranks = timeline.ranks();
  const auto index_of = [&](int rank) {
    const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank,
                                     [](const auto& each, int id) { return each->rank < id; });
    const bool known = at != ranks.end() && (*at)->rank == rank;
    return known ? static_cast<std::size_t>(at - ranks.begin()) : ranks.size();
  };
  std::vector<MessageTimes> times(ranks.size());
  std::vector<Arrival> arrivals;
  const bool rendezvous = timeline.run().clock == "wall";
  const auto& messages = timeline.messages();
  auto at = std::partition_point(messages.begin(), messages.end(), [&](const Message& message) {
    return message.sent < window.start - timeline.longest_message();
  });
  Interval received = window;
  for (auto each = at; each != messages.end() && each->sent < window.end; ++each)
    received.end = std::max(received.end, each->received);
  std::vector<Receives> receives;
  for (const auto& rank : ranks) receives.emplace_back(*rank, received);
  for (; at != messages.end() && at->sent < window.end; ++at) {
    if (at->received <= window.start) continue;
    const std::size_t from = index_of(at->from_rank), to = index_of(at->to_rank);
    if (from == ranks.size() || to == ranks.size()) continue;  // a rank that has no spans yet
    Picoseconds sent = at->sent;
    const TimelineSpan* receive = receives[to].ending(at->to_lane, at->received);
    if (receive) times[to].arriving.push_back({receive->start, receive->end});
    if (rendezvous && receive && receive->start > sent) {
      sent = receive->start;
      times[from].moved[{at->from_lane, at->sent}] = sent;
    }
    arrivals.push_back(
        {to, at->to_lane, sent, at->received, receive ? receive->start : at->received});
  }
  leave_out_held_up(arrivals);
  for (const Arrival& each : arrivals)
    times[each.to].in_flight.push_back({each.sent, each.received});
  return times;
}

/// Returns the intervals in which the compute lane waited.
Intervals waits(const RankTimeline& rank, const Interval& window) {
  std::vector<Interval> found;
  if (const Lane* lane = rank.compute()) {
    visit_band(*lane, Band::action, window, [&](const TimelineSpan& span) {
      if (span.category == Category::wait) found.push_back({span.start, span.end});
    });
  }
  return merged(std::move(found));
}

/// Returns the intervals in which the rank computed. On the modelled clock the host takes no time,
/// so the compute lane's entire step counts as compute, including gaps between named spans, except
/// for its waits.
Intervals compute_of(const Timeline& timeline, const RankTimeline& rank, const Interval& window) {
  std::vector<Interval> found = computation(rank, window);
  if (timeline.run().clock == "modelled" && rank.compute() != nullptr) {
    visit_band(*rank.compute(), Band::step, window, [&](const TimelineSpan& span) {
      found.push_back({span.start, span.end});
    });
  }
  return intersection(difference(merged(std::move(found)), waits(rank, window)), merged({window}));
}

/// Returns the intervals in which bytes moved on any of the rank's lanes, in any step.
Intervals moving(const RankTimeline& rank, const Interval& window, const MessageTimes& messages) {
  std::vector<Interval> found;
  for (const auto& lane : rank.lanes) {
    visit_band(*lane, Band::action, window, [&](const TimelineSpan& span) {
      if (span.category != Category::communication) return;
      const auto late = messages.moved.find({lane->tid(), span.start});
      found.push_back({late == messages.moved.end() ? span.start : late->second, span.end});
    });
  }
  return merged(std::move(found));
}

}  // namespace

StepParts& StepParts::operator+=(const StepParts& other) {
  step = plus(step, other.step);
  compute = plus(compute, other.compute);
  transfer = plus(transfer, other.transfer);
  latency = plus(latency, other.latency);
  late_peer = plus(late_peer, other.late_peer);
  idle = plus(idle, other.idle);
  return *this;
}

std::vector<StepIntervals> step_intervals(const Timeline& timeline, int step) {
  const StepWindow* found = timeline.find_step(step);
  if (!found) return {};
  const Interval window{found->start, found->end};
  const Intervals whole = merged({window});
  const bool of_others = timeline.run().clock.empty();
  std::vector<MessageTimes> messages(timeline.ranks().size());
  if (!of_others) messages = message_times(timeline, window);
  std::vector<StepIntervals> times;
  for (std::size_t i = 0; i < timeline.ranks().size(); ++i) {
    const RankTimeline& rank = *timeline.ranks()[i];
    const Intervals bytes = moving(rank, window, messages[i]);
    const Intervals still = intersection(of_others ? bytes : waits(rank, window), whole);
    StepIntervals& part = times.emplace_back();
    part.compute = compute_of(timeline, rank, window);
    part.exposed = difference(still, part.compute);
    // While a message to the rank is in flight but not yet arriving, the time counts as latency,
    // even if the rank's own send is moving bytes. (In a ring, a rank's own send overlaps the
    // latency of the message that the rank is waiting for.)
    const Intervals not_arriving =
        difference(part.exposed, merged(std::move(messages[i].arriving)));
    const Intervals nothing_comes =
        difference(not_arriving, merged(std::move(messages[i].in_flight)));
    part.latency = difference(not_arriving, nothing_comes);
    part.late_peer = difference(nothing_comes, bytes);
  }
  return times;
}

std::vector<StepParts> step_parts(const Timeline& timeline, int step) {
  const std::vector<StepIntervals> times = step_intervals(timeline, step);
  std::vector<StepParts> parts;
  for (const StepIntervals& rank : times) {
    const StepWindow& window = *timeline.find_step(step);
    StepParts& part = parts.emplace_back();
    part.step = window.end - window.start;
    part.compute = length(rank.compute);
    part.latency = length(rank.latency);
    part.late_peer = length(rank.late_peer);
    part.transfer = length(rank.exposed) - part.latency - part.late_peer;
    part.idle = part.step - part.compute - part.exposed();
  }
  return parts;
}

}  // namespace lockstep
