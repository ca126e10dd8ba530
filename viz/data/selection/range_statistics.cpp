#include "viz/data/selection/range_statistics.h"

#include <algorithm>

#include "viz/data/layout/folding.h"
#include "viz/data/step/mean_step.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

/// Returns whether the steps in the range have few enough spans. Steps may overlap, so a span may
/// be in several.
bool can_be_added(const Timeline& timeline, const Interval& range) {
  std::ptrdiff_t left = most_added;
  for (const StepWindow& step : timeline.steps()) {
    if (step.end <= range.start || step.start >= range.end) continue;
    for (const auto& rank : timeline.ranks())
      for (const auto& lane : rank->lanes)
        for (const Band band : {Band::action, Band::kernel})
          for (const SpanRow& row : lane->rows(band)) {
            const auto first = first_ending_after(row, static_cast<double>(step.start));
            const auto last = std::partition_point(
                first, row.end(), [&](const TimelineSpan& span) { return span.start < step.end; });
            left -= last - first + 1;
            if (left < 0) return false;
          }
  }
  return true;
}

/// Adds up the parts of all steps in the range, by rank.
void add_steps(const Timeline& timeline, RangeStatistics& statistics) {
  const Interval& range = statistics.range;
  std::vector<std::string> axes;
  for (const StepWindow& step : timeline.steps()) {
    if (step.end <= range.start || step.start >= range.end) continue;
    const StepAccount account = step_account(timeline, step.step);
    join_axes(axes, account.axes);
    auto mine = statistics.ranks.begin();
    for (const RankAccount& rank : account.ranks) {
      while (mine->rank != rank.rank) ++mine;
      mine->sums += with_axes(sums_within(account, rank, range), account.axes, axes);
    }
  }
  StepSums all;
  for (RankStatistics& rank : statistics.ranks) {
    rank.sums.axes.resize(axes.size());
    all += rank.sums;
  }
  statistics.axes = sorted_axes(axes, all);
  for (RankStatistics& rank : statistics.ranks) {
    rank.sums = with_axes(rank.sums, axes, statistics.axes);
    rank.in_no_step = std::max<Picoseconds>(statistics.length() - rank.sums.total(), 0);
  }
}

}  // namespace

RangeStatistics range_statistics(const Timeline& timeline, const Interval& range) {
  RangeStatistics statistics{.range = range};
  const Intervals whole = merged({range});
  for (const auto& rank : timeline.ranks()) {
    RankStatistics& mine = statistics.ranks.emplace_back(RankStatistics{.rank = rank->rank});
    std::vector<Interval> messages;
    for (const auto& lane : rank->lanes) {
      visit_band(*lane, Band::action, range, [&](const TimelineSpan& span) {
        const Interval part{std::max(span.start, range.start), std::min(span.end, range.end)};
        if (part.start >= part.end) return;
        auto& total = statistics.totals[static_cast<std::size_t>(span.category)];
        ++total.spans;
        total.time = plus(total.time, part.end - part.start);
        if (span.category != Category::communication) return;
        messages.push_back(part);
        if (span.bytes > 0 && span.end <= range.end && span.sends())
          mine.sent = plus(mine.sent, span.bytes);
      });
    }
    const Intervals compute = intersection(computation(*rank, range), whole);
    const Intervals communication = merged(std::move(messages));
    mine.communication = length(communication);
    mine.hidden = length(intersection(communication, compute));
  }
  statistics.added_up = can_be_added(timeline, range);
  if (statistics.added_up) add_steps(timeline, statistics);
  return statistics;
}

}  // namespace lockstep::viz
