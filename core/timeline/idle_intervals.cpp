#include <algorithm>
#include <numeric>

#include "core/timeline/pipeline_graph.h"

namespace lockstep {

namespace {

/// Divides `whole` in proportion to the positive ones of `shares`, which add up to `whole`.
IdleTimes divided(Picoseconds whole, const IdleTimes& shares) {
  if (std::ranges::min(shares) >= 0) return shares;
  double positive = 0;
  for (const Picoseconds share : shares)
    positive += static_cast<double>(std::max<Picoseconds>(share, 0));
  IdleTimes parts{};
  Picoseconds left = whole;
  const auto largest = std::ranges::max_element(shares) - shares.begin();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] <= 0 || static_cast<std::ptrdiff_t>(i) == largest) continue;
    const double share = static_cast<double>(shares[i]) / positive;
    parts[i] = std::min(left, static_cast<Picoseconds>(static_cast<double>(whole) * share));
    left -= parts[i];
  }
  parts[static_cast<std::size_t>(largest)] = left;
  return parts;
}

/// Returns a rank's action that starts at `start`, or -1. `actions` are in order.
int starting_at(const PipelineGraph& graph, const std::vector<int>& actions, Picoseconds start) {
  const auto at = std::ranges::lower_bound(actions, start, {},
                                           [&](int id) { return graph.node(id).link.time.start; });
  return at != actions.end() && graph.node(*at).link.time.start == start ? *at : -1;
}

/// Returns a rank's last action that ends at `end`, before the action `next` (-1: any), or -1.
int ending_at(const PipelineGraph& graph, const std::vector<int>& actions, Picoseconds end) {
  auto at = std::ranges::upper_bound(actions, end, {},
                                     [&](int id) { return graph.node(id).link.time.start; });
  while (at != actions.begin()) {
    const Interval& time = graph.node(*--at).link.time;
    if (time.end == end) return *at;
    if (time.start < end) break;
  }
  return -1;
}

IdleInterval explained(const PipelineGraph& graph, const std::vector<int>& actions,
                       const Interval& gap) {
  const Interval& window = graph.window();
  IdleInterval idle{.time = gap};
  const int next = starting_at(graph, actions, gap.end);
  const int previous = ending_at(graph, actions, gap.start);
  const bool first = gap.start == window.start, last = gap.end == window.end;
  idle.causes[static_cast<std::size_t>(IdleCause::other)] = gap.end - gap.start;
  // The rank has no part in the pipeline, or the trace lacks the labels of its actions.
  if (actions.empty() || (next < 0 && !last) || (previous < 0 && !first)) return idle;
  const ChainTimes there = next >= 0 ? graph.node(next).at_start : graph.node(graph.last()).at_end;
  const ChainTimes difference =
      there - (previous >= 0 ? graph.node(previous).at_end : ChainTimes{});
  IdleTimes shares{};
  const IdleCause schedule = next < 0       ? IdleCause::cool_down
                             : previous < 0 ? IdleCause::warm_up
                                            : IdleCause::waiting;
  shares[static_cast<std::size_t>(schedule)] = difference.usual;
  shares[static_cast<std::size_t>(IdleCause::straggler)] = difference.excess;
  shares[static_cast<std::size_t>(IdleCause::messages)] = difference.messages;
  shares[static_cast<std::size_t>(IdleCause::other)] = difference.other;
  if (std::accumulate(shares.begin(), shares.end(), Picoseconds{0}) == gap.end - gap.start)
    idle.causes = divided(gap.end - gap.start, shares);
  if (next >= 0 && graph.node(next).input >= 0) {
    const PathLink& awaited = graph.node(graph.node(next).input).link;
    idle.stage = awaited.stage;
    idle.microbatch = awaited.microbatch;
    idle.category = awaited.category;
  }
  return idle;
}

}  // namespace

const char* name_of(IdleCause cause) {
  switch (cause) {
    case IdleCause::warm_up:
      return "warm-up";
    case IdleCause::cool_down:
      return "cool-down";
    case IdleCause::waiting:
      return "waiting";
    case IdleCause::straggler:
      return "straggler";
    case IdleCause::messages:
      return "messages";
    case IdleCause::other:
      return "other";
  }
  return "";  // unreachable: the switch covers every cause
}

std::vector<std::vector<IdleInterval>> idle_intervals(const Timeline& timeline, int step) {
  const PipelineGraph graph{timeline, step};
  std::vector<std::vector<IdleInterval>> ranks;
  if (graph.empty()) return ranks;
  for (std::size_t i = 0; i < timeline.ranks().size(); ++i) {
    auto& intervals = ranks.emplace_back();
    const Intervals busy = pipeline_actions(timeline, *timeline.ranks()[i], step);
    for (const Interval& gap : difference(merged({graph.window()}), busy))
      intervals.push_back(explained(graph, graph.actions(i), gap));
  }
  return ranks;
}

IdleTimes sum_of_causes(const std::vector<IdleInterval>& intervals) {
  IdleTimes sum{};
  for (const IdleInterval& each : intervals)
    for (std::size_t cause = 0; cause < sum.size(); ++cause)
      sum[cause] = plus(sum[cause], each.causes[cause]);
  return sum;
}

}  // namespace lockstep
