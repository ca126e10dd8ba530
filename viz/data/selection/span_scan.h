#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "viz/read/timeline/analysis.h"

namespace lockstep::viz {

/// How far scan_spans() has come: the next span to look at.
struct ScanPosition {
  std::size_t rank = 0, lane = 0, band = 0, row = 0, span = 0;
  bool in_row =
      false;  ///< whether `span` is valid; otherwise the row's first span is not yet known
  bool complete = false;
};

/// Returns whether a span overlaps a range of time. A span of length 0 does if it is inside.
constexpr bool overlaps(const TimelineSpan& span, const Interval& range) {
  return span.start < range.end && (span.end > range.start || span.start >= range.start);
}

/// The bands whose spans do something; the step band only frames them.
inline constexpr Band scanned_bands[] = {Band::action, Band::kernel};

/// Calls `visit(rank, lane, span)` for each span of the action and kernel bands that overlaps
/// `range`, continuing from `at`, for about `budget`. Returns whether no span is left. If spans
/// arrive between two calls, some may be missed or visited twice: begin again.
template <class Visit>
bool scan_spans(const Timeline& timeline, const Interval& range, ScanPosition& at,
                std::chrono::microseconds budget, Visit visit) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t piece = 4096;  // spans visited between two readings of the clock
  const auto until = Clock::now() + budget;
  const auto& ranks = timeline.ranks();
  std::size_t looked_at = 0;
  const auto is_late = [&](std::size_t more) {
    looked_at += more;
    if (looked_at < piece) return false;
    looked_at = 0;
    return Clock::now() >= until;
  };
  for (; at.rank < ranks.size(); ++at.rank, at.lane = 0) {
    const RankTimeline& rank = *ranks[at.rank];
    for (; at.lane < rank.lanes.size(); ++at.lane, at.band = 0) {
      const Lane& lane = *rank.lanes[at.lane];
      for (; at.band < std::size(scanned_bands); ++at.band, at.row = 0) {
        const auto& rows = lane.rows(scanned_bands[at.band]);
        for (; at.row < rows.size(); ++at.row, at.in_row = false) {
          const SpanRow& row = rows[at.row];
          if (!at.in_row) {
            at.span = static_cast<std::size_t>(std::partition_point(row.begin(), row.end(),
                                                                    [&](const TimelineSpan& span) {
                                                                      return span.end < range.start;
                                                                    }) -
                                               row.begin());
            at.in_row = true;
          }
          while (at.span < row.size() && row.start(at.span) < range.end) {
            const std::size_t begin = at.span, end = std::min(row.size(), at.span + piece);
            for (; at.span < end && row.start(at.span) < range.end; ++at.span)
              if (const TimelineSpan span = row[at.span]; overlaps(span, range))
                visit(rank, lane, span);
            if (is_late(at.span - begin)) return false;
          }
          if (is_late(16)) {  // finding the row's first span takes time, too
            ++at.row;
            at.in_row = false;
            return false;
          }
        }
      }
    }
  }
  at.complete = true;
  return true;
}

}  // namespace lockstep::viz
