#include "viz/read/timeline/step_pieces.h"

#include <algorithm>
#include <array>
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
        ends_(step.ends),
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
  /// Identifies the messages between stages that one action may wait for.
  using Label = std::array<int, 4>;  // stage, microbatch, peer, step
  struct Received {
    Picoseconds start = 0, end = 0;
    int lane = 0;
  };

  /// An action that may use a received message.
  struct User {
    Picoseconds start = 0;
    Category category = Category::forward;
  };

  static Route route_of(const TimelineSpan& span) { return {span.group, span.sequence >= 0}; }
  bool is_between_stages(const TimelineSpan& span) const {
    return span.group == 0 && span.stage >= 0;
  }

  void read_lanes() {
    for (const auto& lane : rank_.lanes) {
      if (lane->is_compute()) continue;
      std::map<Route, bool> routes;
      visit_band(*lane, Band::action, time_, [&](const TimelineSpan& span) {
        if (span.category != Category::communication) return;
        routes[route_of(span)] = true;
        if (is_between_stages(span) && timeline_.name(span.name) == "recv")
          received_[{span.stage, span.microbatch, span.peer, span.step}].push_back(
              {span.start, span.end, lane->tid()});
      });
      for (const auto& [route, used] : routes) lanes_[route].push_back(lane->tid());
    }
    for (auto& [label, all] : received_) std::ranges::stable_sort(all, {}, &Received::end);
    if (const Lane* compute = rank_.compute())
      visit_band(*compute, Band::action, time_, [&](const TimelineSpan& span) {
        if (is_pipeline_action(timeline_, span) && span.category != Category::recompute)
          users_[{span.stage, span.microbatch}].push_back({span.start, span.category});
      });
    for (auto& [label, all] : users_) std::ranges::stable_sort(all, {}, &User::start);
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
    return {merged(std::move(all.moving)),
            merged(std::move(all.in_flight)),
            merged(std::move(all.arriving)),
            {}};
  }

  /// Returns the awaited message of a wait for another stage, or null.
  const Received* awaited_message(const TimelineSpan& wait) const {
    if (!is_between_stages(wait) || timeline_.name(wait.name) != "recv") return nullptr;
    const auto found = received_.find({wait.stage, wait.microbatch, wait.peer, wait.step});
    if (found == received_.end()) return nullptr;
    // If both neighbours of a stage are on one rank, two messages have the same labels. In another
    // tool's trace, a wait may end before its message is received: when the receive has been
    // issued, or when the late sender starts.
    const auto pending = std::ranges::find_if(found->second, [&](const Received& each) {
      return each.start <= wait.end && each.end >= wait.end;
    });
    if (pending != found->second.end()) return &*pending;
    auto at = std::ranges::upper_bound(found->second, wait.end, {}, &Received::end);
    if (at != found->second.begin()) --at;
    return &*at;
  }

  /// Returns when the message was sent; nothing if the trace does not show it.
  std::optional<Picoseconds> sent(const Received& message) const {
    const auto lane = traffic_.find(message.lane);
    if (lane == traffic_.end()) return {};
    const auto& flights = lane->second.flights;
    const auto after =
        std::ranges::upper_bound(flights, message.end, {}, &LaneTraffic::Flight::received);
    if (after == flights.begin() || std::prev(after)->received != message.end) return {};
    return std::prev(after)->sent;
  }

  /// Returns the messages by which a wait is divided into transfer, latency and late peer.
  const LaneTraffic& traffic_for(const TimelineSpan& wait, const Received* message) {
    const auto lane = message ? traffic_.find(message->lane) : traffic_.end();
    if (lane != traffic_.end()) return lane->second;
    const Route route = route_of(wait);
    const auto [known, fresh] = joined_.try_emplace(route);
    if (fresh) known->second = joined(lanes_[route]);
    return known->second;
  }

  int axis_of(const TimelineSpan& span) {
    const std::string& group = timeline_.name(span.group);
    const std::string name = !group.empty()            ? group
                             : is_between_stages(span) ? "pp"
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
  void add_bubble(Intervals times, const TimelineSpan& wait, int axis) {
    StepPiece piece{.part = StepPart::waiting, .microbatch = wait.microbatch};
    awaited_by(wait, piece);
    if (const auto end = computed(wait)) {
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

  /// Returns when another stage had computed the result that a wait awaits, if that is known.
  std::optional<Picoseconds> computed(const TimelineSpan& wait) const {
    StepPiece piece{};
    awaited_by(wait, piece);
    const auto found =
        ends_.find({wait.peer, piece.stage, wait.microbatch, piece.category == Category::forward});
    return found != ends_.end() ? std::optional{found->second} : std::nullopt;
  }

  /// Finds the action that waits: the rank's next one on this stage and microbatch. The action's
  /// input comes from the previous or the next stage.
  void awaited_by(const TimelineSpan& wait, StepPiece& piece) const {
    const auto found = users_.find({wait.stage, wait.microbatch});
    if (found == users_.end()) return;
    const auto next = std::ranges::lower_bound(found->second, wait.end, {}, &User::start);
    if (next == found->second.end()) return;
    piece.category = next->category;
    piece.stage = wait.stage + (next->category == Category::forward ? -1 : 1);
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
      const Received* message = awaited_message(wait);
      const auto known = message ? this->sent(*message) : std::nullopt;
      const LaneTraffic& traffic = traffic_for(wait, message);
      // Other messages on the lane do not matter before the awaited one is sent: when the trace
      // says so, or else not before its contents are computed.
      Interval sent = time;
      if (const auto from = known ? known : message ? computed(wait) : std::nullopt)
        sent.start = std::clamp(*from, time.start, time.end);
      // A message to this rank is not what it waits for if it waits to send, or if the trace does
      // not show the awaited one.
      const bool sends = is_between_stages(wait) && timeline_.name(wait.name) == "send";
      const bool other = sends || (message && !known);
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
      if (is_between_stages(wait) && timeline_.name(wait.name) == "recv")
        add_bubble(late, wait, axis);
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
  const ActionEnds& ends_;
  std::map<std::string, int>& axes_;  ///< of all ranks, by order of appearance
  std::map<Route, std::vector<int>> lanes_;
  std::map<Route, LaneTraffic> joined_;
  std::map<Label, std::vector<Received>> received_;
  std::map<std::pair<int, int>, std::vector<User>> users_;  ///< by stage and microbatch
  std::vector<Interval> waited_;
  std::vector<StepPiece> pieces_;
};

}  // namespace

RankAccount divide_step(const StepOfRank& step, std::map<std::string, int>& axes) {
  return Divider{step, axes}.divide();
}

}  // namespace lockstep
