#pragma once

#include <array>
#include <vector>

#include "core/timeline/analysis.h"

namespace lockstep::viz {

/// What one rank did in a range of time. Spans that cross an end of the range count only with their
/// part within it. compute + idle is the range's length.
struct RankStatistics {
  int rank = 0;
  Picoseconds compute = 0;        ///< see computation() in core/trace
  Picoseconds idle = 0;           ///< the rest
  Picoseconds waiting = 0;        ///< of that, in wait spans on the compute lane
  Picoseconds communication = 0;  ///< at least one communication span is running
  Picoseconds hidden = 0;         ///< of that, while the rank computes
  std::int64_t sent = 0;          ///< bytes of the messages that the rank finishes sending
};

/// The statistics of exactly one range of time.
struct RangeStatistics {
  Interval range;
  std::vector<RankStatistics> ranks;  ///< in timeline order
  /// By category: the spans of the action band that have a part in the range, and the sum of these
  /// parts over all ranks.
  struct Total {
    std::int64_t spans = 0;
    Picoseconds time = 0;
  };
  std::array<Total, category_count> totals{};

  Picoseconds length() const { return range.end - range.start; }
};

/// Computes the statistics from the spans. Takes time linear in the number of spans in the range.
RangeStatistics range_statistics(const Timeline& timeline, const Interval& range);

}  // namespace lockstep::viz
