#include "viz/read/timeline/analysis.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "viz/read/timeline/visit_band.h"
#include "viz/read/timeline/visit_sends.h"

namespace lockstep {

namespace {

// Limits on what a trace that Lockstep did not write may claim.
constexpr int most_stages = 1 << 16, most_microbatches = 1 << 30;

/// Returns the operation of an action other than recomputation.
Op op_of(const TimelineSpan& action) {
  for (const Op op : {Op::backward, Op::backward_input, Op::backward_weight})
    if (category(op) == action.category) return op;
  return Op::forward;
}

}  // namespace

Intervals merged(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& one) { return one.end <= one.start; });
  if (!std::ranges::is_sorted(intervals, {}, &Interval::start))
    std::ranges::sort(intervals, {}, &Interval::start);
  std::size_t kept = 0;
  for (const Interval& next : intervals) {
    if (kept > 0 && next.start <= intervals[kept - 1].end) {
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, next.end);
    } else {
      intervals[kept++] = next;
    }
  }
  intervals.resize(kept);
  return intervals;
}

Intervals intersection(const Intervals& a, const Intervals& b) {
  Intervals both;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Picoseconds start = std::max(a[i].start, b[j].start);
    const Picoseconds end = std::min(a[i].end, b[j].end);
    if (start < end) both.push_back({start, end});
    a[i].end < b[j].end ? ++i : ++j;
  }
  return both;
}

Intervals difference(const Intervals& a, const Intervals& b) {
  Intervals rest;
  std::size_t j = 0;
  for (const Interval& one : a) {
    Picoseconds start = one.start;
    while (j < b.size() && b[j].end <= start) ++j;
    for (std::size_t k = j; k < b.size() && b[k].start < one.end; ++k) {
      if (start < b[k].start) rest.push_back({start, b[k].start});
      start = std::max(start, b[k].end);
    }
    if (start < one.end) rest.push_back({start, one.end});
  }
  return rest;
}

Picoseconds length(const Intervals& intervals) {
  Picoseconds sum = 0;
  for (const Interval& one : intervals) sum += one.end - one.start;
  return sum;
}

std::vector<TimelineSpan> actions_of(const Timeline& timeline, const RankTimeline& rank, int step) {
  const StepWindow* window = timeline.find_step(step);
  std::vector<TimelineSpan> actions;
  if (!window || !rank.compute()) return actions;
  visit_band(*rank.compute(), Band::action, {window->start, window->end},
             [&](const TimelineSpan& span) {
               if (span.step == step && span.is_action()) actions.push_back(span);
             });
  std::ranges::stable_sort(actions, {}, [](const TimelineSpan& span) {
    return std::pair{span.start, span.end};
  });
  return actions;
}

std::set<int> stages_of(const Timeline& timeline, const RankTimeline& rank, int step) {
  std::set<int> stages;
  for (const TimelineSpan& action : actions_of(timeline, rank, step)) stages.insert(action.stage);
  return stages;
}

ExecutedStep executed_step(const Timeline& timeline, int step, const std::vector<int>& ranks) {
  ExecutedStep executed{.schedule = {.name = "observed"}, .actions = {}};
  Schedule& schedule = executed.schedule;
  for (const auto& rank : timeline.ranks()) {
    if (!ranks.empty() && std::ranges::count(ranks, rank->rank) == 0) continue;
    std::vector<TimelineSpan> spans = actions_of(timeline, *rank, step);
    std::erase_if(spans,
                  [](const TimelineSpan& span) { return span.category == Category::recompute; });
    if (spans.empty()) continue;  // it takes no part
    auto& actions = schedule.actions.emplace_back();
    for (const TimelineSpan& span : spans) {
      actions.push_back({op_of(span), span.stage, span.microbatch});
      schedule.microbatches =
          std::max(schedule.microbatches, std::min(span.microbatch, most_microbatches) + 1);
      schedule.stages = std::max(schedule.stages, std::min(span.stage, most_stages) + 1);
    }
    executed.actions.push_back(std::move(spans));
  }
  schedule.ranks = static_cast<int>(schedule.actions.size());
  schedule.rank_of_stage.resize(static_cast<std::size_t>(schedule.stages));
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)])
      if (action.stage < schedule.stages)
        schedule.rank_of_stage[static_cast<std::size_t>(action.stage)] = rank;
  return executed;
}

Intervals pipeline_actions(const Timeline& timeline, const RankTimeline& rank, int step) {
  std::vector<Interval> actions;
  for (const TimelineSpan& span : actions_of(timeline, rank, step))
    actions.push_back({span.start, span.end});
  return merged(std::move(actions));
}

Picoseconds Bubble::idle() const {
  Picoseconds whole = 0;
  if (__builtin_mul_overflow(window, Picoseconds{ranks}, &whole))
    whole = std::numeric_limits<Picoseconds>::max();
  return whole - busy;
}

double Bubble::share() const {
  const auto whole = static_cast<double>(window) * ranks;
  return whole > 0 ? static_cast<double>(idle()) / whole : 0;
}

std::optional<Bubble> bubble(const Timeline& timeline, int step) {
  Bubble result{.ranks = 0};
  std::optional<Interval> window;
  for (const auto& rank : timeline.ranks()) {
    const Intervals actions = pipeline_actions(timeline, *rank, step);
    if (actions.empty()) continue;
    ++result.ranks;
    result.busy = plus(result.busy, length(actions));
    if (!window) window = Interval{actions.front().start, actions.back().end};
    window->start = std::min(window->start, actions.front().start);
    window->end = std::max(window->end, actions.back().end);
  }
  if (!window) return std::nullopt;
  result.window = window->end - window->start;
  return result;
}

std::optional<Bubble> internal_bubble(const Timeline& timeline, int step, int rank) {
  const RankTimeline* found = timeline.find_rank(rank);
  if (!found) return std::nullopt;
  const Intervals actions = pipeline_actions(timeline, *found, step);
  if (actions.empty()) return std::nullopt;
  return Bubble{actions.back().end - actions.front().start, length(actions), 1};
}

std::optional<Bubble> internal_bubble(const Timeline& timeline, int step) {
  std::optional<Bubble> longest;
  for (const auto& rank : timeline.ranks()) {
    const auto own = internal_bubble(timeline, step, rank->rank);
    if (own && (!longest || own->window > longest->window)) longest = own;
  }
  return longest;
}

double Overlap::share() const {
  return communication > 0 ? static_cast<double>(hidden) / static_cast<double>(communication) : 0;
}

Intervals communication(const Timeline& timeline, const RankTimeline& rank, int step) {
  Interval window{timeline.start(), timeline.end()};
  if (step >= 0) {
    const StepWindow* found = timeline.find_step(step);
    if (!found) return {};
    window = {found->start, found->end};
  }
  std::vector<Interval> intervals;
  for (const auto& lane : rank.lanes) {
    visit_band(*lane, Band::action, window, [&](const TimelineSpan& span) {
      if (span.category == Category::communication && (step < 0 || span.step == step)) {
        intervals.push_back({span.start, span.end});
      }
    });
  }
  return merged(std::move(intervals));
}

Intervals computation(const RankTimeline& rank, const Interval& window) {
  std::vector<Interval> compute, waits;
  for (const auto& lane : rank.lanes) {
    for (Band band : {Band::action, Band::kernel}) {
      visit_band(*lane, band, window, [&](const TimelineSpan& span) {
        if (computes(span.category)) compute.push_back({span.start, span.end});
        if (span.category == Category::wait && lane->is_compute()) {
          waits.push_back({span.start, span.end});
        }
      });
    }
  }
  return difference(merged(std::move(compute)), merged(std::move(waits)));
}

Overlap communication_overlap(const Timeline& timeline, const RankTimeline& rank, int step) {
  const Intervals sent = communication(timeline, rank, step);
  if (sent.empty()) return {};
  const Intervals compute = computation(rank, {sent.front().start, sent.back().end});
  return {length(sent), length(intersection(sent, compute))};
}

Overlap communication_overlap(const Timeline& timeline, int step) {
  Overlap sum;
  for (const auto& rank : timeline.ranks()) {
    const Overlap one = communication_overlap(timeline, *rank, step);
    sum.communication = plus(sum.communication, one.communication);
    sum.hidden = plus(sum.hidden, one.hidden);
  }
  return sum;
}

std::optional<Interval> step_of_rank(const Timeline& timeline, const RankTimeline& rank, int step) {
  const StepWindow* window = timeline.find_step(step);
  if (!window) return {};
  std::optional<Interval> whole;
  for (const auto& lane : rank.lanes)
    for (const Band band : {Band::step, Band::action, Band::kernel})
      visit_band(*lane, band, {window->start, window->end}, [&](const TimelineSpan& span) {
        if (span.step != step) return;
        if (!whole) whole = {span.start, span.end};
        whole = {std::min(whole->start, span.start), std::max(whole->end, span.end)};
      });
  return whole;
}

std::int64_t bytes_sent(const Timeline& timeline, const RankTimeline& rank, int step) {
  std::int64_t sent = 0;
  visit_sends(timeline, rank, step,
              [&](const TimelineSpan& span) { sent = plus(sent, span.bytes); });
  return sent;
}

std::optional<MemorySample> memory_peak(const Timeline& timeline, const RankTimeline& rank,
                                        int step) {
  const auto whole = step_of_rank(timeline, rank, step);
  if (!whole || rank.memory.empty()) return {};
  const auto& samples = rank.memory;
  // The sample before the step holds until the next one.
  auto at = std::ranges::partition_point(
      samples, [&](const MemorySample& sample) { return sample.at <= whole->start; });
  std::optional<MemorySample> peak;
  if (at != samples.begin()) peak = *std::prev(at);
  for (; at != samples.end() && at->at <= whole->end; ++at)
    if (!peak || at->total() > peak->total()) peak = *at;
  return peak;
}

}  // namespace lockstep
