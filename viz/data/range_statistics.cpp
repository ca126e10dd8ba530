#include "viz/data/range_statistics.h"

#include <algorithm>

#include "core/timeline/visit_band.h"

namespace lockstep::viz {

RangeStatistics range_statistics(const Timeline& timeline, const Interval& range) {
  RangeStatistics statistics{.range = range};
  const Intervals whole = merged({range});
  for (const auto& rank : timeline.ranks()) {
    RankStatistics& mine = statistics.ranks.emplace_back(RankStatistics{.rank = rank->rank});
    std::vector<Interval> waits, messages;
    for (const auto& lane : rank->lanes) {
      const bool sends = rank->sending_lanes.contains(lane->tid());
      visit_band(*lane, Band::action, range, [&](const TimelineSpan& span) {
        const Interval part{std::max(span.start, range.start), std::min(span.end, range.end)};
        if (part.start >= part.end) return;
        auto& total = statistics.totals[static_cast<std::size_t>(span.category)];
        ++total.spans;
        total.time = plus(total.time, part.end - part.start);
        if (span.category == Category::wait && lane->is_compute()) waits.push_back(part);
        if (span.category != Category::communication) return;
        messages.push_back(part);
        if (span.bytes > 0 && span.end <= range.end &&
            (sends || timeline.name(span.name) == "send"))
          mine.sent = plus(mine.sent, span.bytes);
      });
    }
    const Intervals compute = intersection(computation(*rank, range), whole);
    const Intervals communication = merged(std::move(messages));
    mine.compute = length(compute);
    mine.waiting = length(difference(merged(std::move(waits)), compute));
    mine.idle = statistics.length() - mine.compute;
    mine.communication = length(communication);
    mine.hidden = length(intersection(communication, compute));
  }
  return statistics;
}

}  // namespace lockstep::viz
