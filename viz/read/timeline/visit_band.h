#pragma once

#include <algorithm>

#include "viz/read/timeline/analysis.h"

namespace lockstep {

/// Calls `visit(span)` for each span of a band that touches `window`, in order within each row.
template <class Visit>
void visit_band(const Lane& lane, Band band, const Interval& window, Visit visit) {
  for (const SpanRow& row : lane.rows(band)) {
    auto first = std::partition_point(
        row.begin(), row.end(), [&](const TimelineSpan& span) { return span.end < window.start; });
    for (; first != row.end() && first->start <= window.end; ++first) visit(*first);
  }
}

}  // namespace lockstep
