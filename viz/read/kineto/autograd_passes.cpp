#include "viz/read/kineto/autograd_passes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::kineto {
namespace {

/// The outermost operators of each host thread.
class OutermostOps {
 public:
  explicit OutermostOps(const Trace& trace) : by_track_(trace.tracks.size()) {
    for (const Event& event : trace.events) {
      if (event.kind != Event::Kind::op) continue;
      std::vector<Interval>& all = by_track_[event.track];
      if (all.empty() || event.start >= all.back().end) all.push_back({event.start, event.end});
    }
  }

  /// Returns the operator around a point, or the empty interval at the point.
  Interval around(const TrackTime& point) const {
    const auto& all = by_track_[point.track];
    const auto after = std::ranges::upper_bound(all, point.at, {}, &Interval::start);
    if (after != all.begin() && std::prev(after)->end >= point.at) return *std::prev(after);
    return {point.at, point.at};
  }

 private:
  std::vector<std::vector<Interval>> by_track_;
};

/// Returns whether an event issues a message, which separates the passes of two microbatches.
bool issues_message(std::string_view name) {
  return name == "c10d::send" || name == "c10d::recv_" || name.starts_with("nccl:send") ||
         name.starts_with("nccl:recv") || name.starts_with("nccl:coalesced");
}

/// By link: the runs that contain its two ends. A run is a series of ends in one direction that
/// neither the other direction nor a message interrupts.
using Runs = std::vector<std::pair<int, int>>;

Runs runs_of(const Trace& trace) {
  enum class Kind { message, forward, backward };
  struct Point {
    Picoseconds at = 0;
    Kind kind = Kind::message;
    std::size_t link = 0;
  };
  std::vector<Point> points;
  for (std::size_t i = 0; i < trace.links.size(); ++i) {
    points.push_back({trace.links[i].forward.at, Kind::forward, i});
    points.push_back({trace.links[i].backward.at, Kind::backward, i});
  }
  for (const Event& event : trace.events)
    if (issues_message(trace.name(event))) points.push_back({event.start, Kind::message, 0});
  std::ranges::stable_sort(points, {}, &Point::at);
  Runs runs(trace.links.size());
  int run = 0;
  Kind last = Kind::message;
  for (const Point& point : points) {
    if (point.kind != last) ++run;
    last = point.kind;
    if (point.kind == Kind::forward) runs[point.link].first = run;
    if (point.kind == Kind::backward) runs[point.link].second = run;
  }
  return runs;
}

void extend(Interval& time, const Interval& by) {
  time.start = std::min(time.start, by.start);
  time.end = std::max(time.end, by.end);
}

}  // namespace

std::vector<Action> autograd_passes(const Trace& trace, const RankCalls& calls) {
  struct Microbatch {
    Interval forward, backward;
  };
  const Runs runs = runs_of(trace);
  const OutermostOps ops{trace};
  std::map<std::pair<int, int>, Microbatch> microbatches;  // by their runs
  for (std::size_t i = 0; i < trace.links.size(); ++i) {
    const Interval forward = ops.around(trace.links[i].forward);
    const Interval backward = ops.around(trace.links[i].backward);
    const auto [at, fresh] = microbatches.try_emplace(runs[i], Microbatch{forward, backward});
    extend(at->second.forward, forward);
    extend(at->second.backward, backward);
  }
  std::vector<Action> actions;
  std::map<int, int> counts;  // of microbatches, by step
  for (const auto& [key, times] : microbatches) {
    const int step = calls.step_at(times.forward.start);
    const int microbatch = counts[step]++;
    actions.push_back({Category::forward, -1, microbatch, step, 0, times.forward});
    actions.push_back({Category::backward, -1, microbatch, step, 0, times.backward});
  }
  return actions;
}

}  // namespace lockstep::kineto
