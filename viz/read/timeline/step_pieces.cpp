#include "viz/read/timeline/step_pieces.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "viz/read/timeline/visit_band.h"

namespace lockstep {

namespace {

/// Returns the part of `all` that is within `range`.
Intervals part_of(const Intervals& all, const Interval& range) {
  Intervals part;
  for (auto at = std::ranges::upper_bound(all, range.start, {}, &Interval::end);
       at != all.end() && at->start < range.end; ++at)
    part.push_back({std::max(at->start, range.start), std::min(at->end, range.end)});
  return part;
}

/// Divides one rank's step into pieces.
class Divider {
 public:
  Divider(const StepOfRank& step, std::map<std::string, int>& axes)
      : timeline_(step.timeline),
        rank_(step.rank),
        step_(step.window.step),
        window_{step.window.start, step.window.end},
        time_(step.time),
        traffic_(step.traffic),
        all_(step.all),
        own_(step.own),
        graph_(step.graph),
        axes_(axes) {}

  RankAccount divide() {
    read_lanes();
    RankAccount account{
        .rank = rank_.rank, .time = time_, .pieces = {}, .sums = {}, .overlaps = {}};
    if (timeline_.run().clock.empty())
      stalls_without_waits();
    else
      waits();
    work();
    std::ranges::sort(pieces_, {}, [](const StepPiece& piece) { return piece.time.start; });
    account.pieces = std::move(pieces_);
    account.overlaps = overlaps();
    return account;
  }

 private:
  /// The lanes of a group's collectives, or of its messages: `collectives` tells which.
  struct Route {
    NameId group = 0;
    bool collectives = false;
    auto operator<=>(const Route&) const = default;
  };
  using Message = StepGraph::Message;

  static Route route_of(const TimelineSpan& span) { return {span.group, span.sequence >= 0}; }
  void read_lanes() {
    for (const auto& lane : rank_.lanes) {
      if (lane->is_compute()) continue;
      std::map<Route, bool> routes;
      visit_band(*lane, Band::action, time_, [&](const TimelineSpan& span) {
        if (span.category != Category::communication) return;
        routes[route_of(span)] = true;
      });
      for (const auto& [route, used] : routes) lanes_[route].push_back(lane->tid());
    }
  }

  /// Returns the combined traffic of several lanes.
  LaneTraffic joined(const std::vector<int>& lanes) const {
    LaneTraffic all;
    for (const int lane : lanes) {
      const auto found = traffic_.find(lane);
      if (found == traffic_.end()) continue;
      for (Intervals LaneTraffic::*times :
           {&LaneTraffic::moving, &LaneTraffic::in_flight, &LaneTraffic::arriving})
        (all.*times)
            .insert((all.*times).end(), (found->second.*times).begin(),
                    (found->second.*times).end());
    }
    return {merged(std::move(all.moving)), merged(std::move(all.in_flight)),
            merged(std::move(all.arriving))};
  }

  /// Returns the message that a wait for another stage waits for, or null.
  const Message* awaited_message(const TimelineSpan& wait) const {
    if (!wait.is_between_stages() || !wait.receives()) return nullptr;
    const Message* message = graph_.message(wait.message);
    return message && message->received ? message : nullptr;
  }

  /// Returns when the message was sent; nothing if the trace does not show it. On the wall clock, a
  /// send whose receiver is not ready moves no bytes.
  std::optional<Picoseconds> sent(const Message& message) const {
    if (!message.sent) return {};
    return timeline_.run().clock == "wall" ? std::max(message.sent->start, message.received->start)
                                           : message.sent->start;
  }

  /// Returns the messages by which a wait is divided into transfer, latency and late peer.
  const LaneTraffic& traffic_for(const TimelineSpan& wait, const Message* message) {
    const auto lane = message ? traffic_.find(message->to_lane) : traffic_.end();
    if (lane != traffic_.end()) return lane->second;
    const Route route = route_of(wait);
    const auto [known, fresh] = joined_.try_emplace(route);
    if (fresh) known->second = joined(lanes_[route]);
    return known->second;
  }

  int axis_of(const TimelineSpan& span) {
    const std::string& group = timeline_.name(span.group);
    const std::string name = !group.empty()             ? group
                             : span.is_between_stages() ? "pp"
                                                        : "communication";
    return axes_.try_emplace(name, static_cast<int>(axes_.size())).first->second;
  }

  void add(const Intervals& times, StepPiece piece) {
    for (const Interval& time : times) {
      piece.time = time;
      pieces_.push_back(piece);
    }
  }

  /// Adds the times of a wait for another stage in which no message is in flight: a bubble, until
  /// the other stage has computed the result. (On the wall clock, that stage may not send the
  /// result at once.)
  void add_bubble(Intervals times, const TimelineSpan& wait, const Message* message, int axis) {
    StepPiece piece{.part = StepPart::waiting, .microbatch = wait.microbatch};
    if (message) {
      piece.stage = wait.stage + (message->forward() ? -1 : 1);
      piece.category = message->producer >= 0 ? graph_.node(message->producer).link.category
                       : message->forward()   ? Category::forward
                                              : Category::backward;
    }
    if (const auto end = computed(message)) {
      const Intervals until{{std::numeric_limits<Picoseconds>::min(), *end}};
      add(difference(times, until), {.part = StepPart::late_peer, .axis = axis});
      times = intersection(times, until);
    }
    const bool first = wait.start < own_.first_start;
    if (!first) return add(times, piece);
    const Interval before{std::numeric_limits<Picoseconds>::min(), all_.first_start};
    piece.part = StepPart::cool_down;
    add(intersection(times, {before}), piece);
    piece.part = StepPart::warm_up;
    add(difference(times, {before}), piece);
  }

  /// Returns when another stage had computed the result that a message carries, if that is known.
  std::optional<Picoseconds> computed(const Message* message) const {
    if (!message || message->producer < 0) return {};
    return graph_.node(message->producer).link.time.end;
  }

  void waits() {
    const Lane* compute = rank_.compute();
    if (!compute) return;
    Picoseconds done = time_.start;  // waits within waits count once
    std::vector<TimelineSpan> spans;
    visit_band(*compute, Band::action, time_, [&](const TimelineSpan& span) {
      if (span.category == Category::wait) spans.push_back(span);
    });
    std::ranges::stable_sort(spans, {}, &TimelineSpan::start);
    for (const TimelineSpan& wait : spans) {
      const Interval time{std::max(wait.start, done), std::min(wait.end, time_.end)};
      if (time.start >= time.end) continue;
      done = time.end;
      const Message* message = awaited_message(wait);
      const auto known = message ? this->sent(*message) : std::nullopt;
      const LaneTraffic& traffic = traffic_for(wait, message);
      // Other messages on the lane do not matter before the awaited one is sent: when the trace
      // says so, or else not before its contents are computed.
      Interval sent = time;
      if (const auto from = known ? known : computed(message))
        sent.start = std::clamp(*from, time.start, time.end);
      // A message to this rank is not what it waits for if it waits to send, or if the trace does
      // not show the awaited one.
      const bool other = (wait.is_between_stages() && wait.sends()) || (message && !known);
      // While a message to the rank is in flight but not yet arriving, the time counts as latency,
      // even if the rank's own send is moving bytes. (In a ring, a rank's own send overlaps the
      // latency of the message that the rank is waiting for.)
      const Intervals not_arriving = difference({time}, part_of(traffic.arriving, sent));
      const Intervals nothing_comes =
          other ? not_arriving : difference(not_arriving, part_of(traffic.in_flight, sent));
      const Intervals late = difference(nothing_comes, part_of(traffic.moving, sent));
      const Intervals latency = difference(not_arriving, nothing_comes);
      const int axis = axis_of(wait);
      add(latency, {.part = StepPart::latency, .axis = axis});
      if (wait.is_between_stages() && wait.receives())
        add_bubble(late, wait, message, axis);
      else
        add(late, {.part = StepPart::late_peer, .axis = axis});
      add(difference(difference({time}, latency), late),
          {.part = StepPart::transfer, .axis = axis});
      waited_.push_back(time);
    }
  }

  /// Without waits in the trace, the rank stalls while it communicates and does not compute.
  void stalls_without_waits() {
    const Intervals computing = computation(rank_, time_);
    std::map<int, std::vector<Interval>> by_axis;
    for (const auto& lane : rank_.lanes)
      visit_band(*lane, Band::action, time_, [&](const TimelineSpan& span) {
        if (span.category == Category::communication)
          by_axis[axis_of(span)].push_back({span.start, span.end});
      });
    for (auto& [axis, times] : by_axis) {
      const Intervals communicating = intersection(merged(std::move(times)), merged({time_}));
      const Intervals stalled = difference(difference(communicating, computing), merged(waited_));
      add(stalled, {.part = StepPart::transfer, .axis = axis});
      waited_.insert(waited_.end(), stalled.begin(), stalled.end());
    }
  }

  /// All time outside waits counts as work. On the modelled clock the host takes no time, so this
  /// includes the time between named spans.
  void work() {
    const Intervals rest = difference(merged({time_}), merged(std::move(waited_)));
    const bool modelled = timeline_.run().clock == "modelled" && rank_.compute() != nullptr;
    const Intervals computing = modelled ? rest : intersection(computation(rank_, time_), rest);
    std::vector<Interval> optimizing;
    for (const auto& lane : rank_.lanes)
      visit_band(*lane, Band::action, time_, [&](const TimelineSpan& span) {
        if (span.category == Category::optimizer) optimizing.push_back({span.start, span.end});
      });
    const Intervals optimizer = intersection(computing, merged(std::move(optimizing)));
    add(optimizer, {.part = StepPart::optimizer});
    add(difference(computing, optimizer), {.part = StepPart::compute});
    add(difference(rest, computing), {.part = StepPart::other});
  }

  /// Returns the overlap of each axis that is known so far.
  std::vector<Overlap> overlaps() {
    std::map<int, std::vector<Interval>> by_axis;
    for (const auto& lane : rank_.lanes) {
      if (lane->is_compute()) continue;
      visit_band(*lane, Band::action, window_, [&](const TimelineSpan& span) {
        if (span.category != Category::communication || span.step != step_) return;
        // On the wall clock, a send whose receiver is not ready moves no bytes.
        const auto moving = traffic_.find(lane->tid());
        const Interval time{span.start, span.end};
        const Intervals moved =
            moving == traffic_.end() ? merged({time}) : part_of(moving->second.moving, time);
        std::vector<Interval>& times = by_axis[axis_of(span)];
        times.insert(times.end(), moved.begin(), moved.end());
      });
    }
    std::vector<Overlap> all(axes_.size());
    const Intervals computing = computation(rank_, window_);
    for (auto& [axis, times] : by_axis) {
      const Intervals on_lanes = merged(std::move(times));
      all[static_cast<std::size_t>(axis)] = {length(on_lanes),
                                             length(intersection(on_lanes, computing))};
    }
    return all;
  }

  const Timeline& timeline_;
  const RankTimeline& rank_;
  const int step_;
  const Interval window_;  ///< of the step on all ranks
  const Interval time_;
  const std::map<int, LaneTraffic>& traffic_;
  const PipelineActions &all_, &own_;
  const StepGraph& graph_;
  std::map<std::string, int>& axes_;  ///< of all ranks, by order of appearance
  std::map<Route, std::vector<int>> lanes_;
  std::map<Route, LaneTraffic> joined_;
  std::vector<Interval> waited_;
  std::vector<StepPiece> pieces_;
};

}  // namespace

RankAccount divide_step(const StepOfRank& step, std::map<std::string, int>& axes) {
  return Divider{step, axes}.divide();
}

}  // namespace lockstep
