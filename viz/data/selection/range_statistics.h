#pragma once

#include <array>
#include <string>
#include <vector>

#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

/// One rank's statistics for a range of time.
struct RankStatistics {
  int rank = 0;
  /// The parts of the rank's steps within the range, as step_account() divides them. `axes` is
  /// parallel to RangeStatistics::axes; `ended` is 0.
  StepSums sums;
  Picoseconds in_no_step = 0;     ///< the rest of the range
  Picoseconds communication = 0;  ///< at least one communication span is running
  Picoseconds hidden = 0;         ///< of that, while the rank computes
  std::int64_t sent = 0;          ///< bytes of the messages that the rank finishes sending
};

/// The statistics of exactly one range of time.
struct RangeStatistics {
  Interval range;
  std::vector<std::string> axes{};  ///< sorted as those of a StepAccount
  /// False if the range's steps have more than `most_added` spans: the parts of the steps are then
  /// unknown, and `sums` and `in_no_step` are 0.
  bool added_up = true;
  std::vector<RankStatistics> ranks{};  ///< in timeline order
  /// By category: the spans of the action band that overlap the range, and the sum of the overlaps
  /// over all ranks.
  struct Total {
    std::int64_t spans = 0;
    Picoseconds time = 0;
  };
  std::array<Total, category_count> totals{};

  Picoseconds length() const { return range.end - range.start; }
};

/// Adding up steps with this many spans takes about a second.
constexpr std::ptrdiff_t most_added = 4'000'000;
/// Computes the statistics from the spans. Takes time linear in the number of spans in the range
/// and in its steps.
RangeStatistics range_statistics(const Timeline& timeline, const Interval& range);

}  // namespace lockstep::viz
