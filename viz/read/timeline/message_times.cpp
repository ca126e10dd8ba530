#include "viz/read/timeline/message_times.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "viz/read/timeline/visit_band.h"

namespace lockstep {

namespace {

/// The intervals of LaneTraffic, not merged yet.
struct Collected {
  std::vector<Interval> moving, in_flight, arriving;
  std::vector<Interval> waiting;  ///< in another tool's trace: waits for late members
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

}  // namespace

std::vector<std::map<int, LaneTraffic>> lane_traffic(const Timeline& timeline,
                                                     const Interval& window) {
  const auto& ranks = timeline.ranks();
  const auto index_of = [&](int rank) {
    const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank,
                                     [](const auto& each, int id) { return each->rank < id; });
    const bool known = at != ranks.end() && (*at)->rank == rank;
    return known ? static_cast<std::size_t>(at - ranks.begin()) : ranks.size();
  };
  std::vector<std::map<int, Collected>> collected(ranks.size());
  std::vector<Arrival> arrivals;
  const bool rendezvous = timeline.run().clock == "wall";
  const auto& messages = timeline.messages();
  auto at =
      std::partition_point(messages.begin(), messages.end(), [&](const TimelineMessage& message) {
        return message.sent < window.start - timeline.longest_message();
      });
  Interval received = window;
  for (auto each = at; each != messages.end() && each->sent < window.end; ++each)
    received.end = std::max(received.end, each->received);
  // For sends whose receiver was late: when bytes began to move, by rank, lane and start.
  std::map<std::tuple<std::size_t, int, Picoseconds>, Picoseconds> moved;
  // A message that is sent later may hold up one that is sent within the window.
  for (; at != messages.end() && at->sent < received.end; ++at) {
    if (at->received <= window.start) continue;
    const std::size_t from = index_of(at->from_rank), to = index_of(at->to_rank);
    if (from == ranks.size() || to == ranks.size()) continue;  // a rank that has no spans yet
    Picoseconds sent = at->sent;
    if (at->has_receive)
      collected[to][at->to_lane].arriving.push_back({at->arriving, at->received});
    if (rendezvous && at->has_receive && at->arriving > sent) {
      sent = at->arriving;
      moved[{from, at->from_lane, at->sent}] = sent;
    }
    arrivals.push_back({to, at->to_lane, sent, at->received, at->arriving});
  }
  leave_out_held_up(arrivals);
  for (const Arrival& each : arrivals)
    collected[each.to][each.lane].in_flight.push_back({each.sent, each.received});

  std::vector<std::map<int, LaneTraffic>> traffic(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const auto& lane : ranks[i]->lanes)
      visit_band(*lane, Band::action, window, [&](const TimelineSpan& span) {
        if (span.category == Category::wait && !lane->is_compute())
          collected[i][lane->tid()].waiting.push_back({span.start, span.end});
        if (span.category != Category::communication) return;
        const auto late = moved.find({i, lane->tid(), span.start});
        collected[i][lane->tid()].moving.push_back(
            {late == moved.end() ? span.start : late->second, span.end});
      });
    for (auto& [lane, times] : collected[i]) {
      const Intervals waiting = merged(std::move(times.waiting));
      traffic[i].emplace(lane, LaneTraffic{difference(merged(std::move(times.moving)), waiting),
                                           merged(std::move(times.in_flight)),
                                           difference(merged(std::move(times.arriving)), waiting)});
    }
  }
  return traffic;
}

}  // namespace lockstep
