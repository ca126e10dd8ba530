#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/timeline/analysis.h"
#include "core/timeline/straggler.h"
#include "viz/data/viewport.h"

namespace lockstep::viz {

/// A step's loss: the mean over the ranks that report one.
struct LossPoint {
  int step = 0;  ///< counted from the first report
  double loss = 0;
};
std::vector<LossPoint> loss_series(const Timeline& timeline);

/// The bubble and overlap of each completed step. They are computed when they are first shown,
/// because a trace may have many steps with many spans each.
class BubbleSeries {
 public:
  using Clock = std::chrono::steady_clock;
  struct Point {
    int step = 0;
    Bubble bubble{};
    Bubble internal{};       ///< of `longest_rank`
    int longest_rank = -1;   ///< the rank whose pipeline actions extend over the longest time
    Picoseconds length = 0;  ///< from the first start to the last end of a rank
    /// By rank, in timeline order: the part of the bubble's window without pipeline actions or,
    /// without a pipeline, the part of the step without computing.
    std::vector<Picoseconds> idle{};
    Overlap overlap{};
    StepParts parts{};  ///< summed over ranks
    std::optional<Straggler> late{};
  };
  /// Counts the steps that have ended. Until the next call, find() spends about `budget` on
  /// computing points, but computes at least one.
  void update(const Timeline& timeline, std::chrono::milliseconds budget);
  void clear() { *this = {}; }
  /// Returns the number of completed steps; they are the first ones in timeline.steps().
  std::size_t count() const { return count_; }
  /// Returns the point of the step at `index`, or null if the budget is used up.
  const Point* find(const Timeline& timeline, std::size_t index);
  /// Returns whether find() returned null since update(), so that another frame is due.
  bool behind() const { return behind_; }

 private:
  std::unordered_map<int, Point> points_;  ///< by step
  std::size_t count_ = 0;
  int first_step_ = 0;  ///< if it changes, the steps' indices have shifted
  Clock::time_point until_{};
  bool computed_ = false;
  bool behind_ = false;
};

/// Returns one rank's memory over a window, one column per pixel. Each column holds its sample with
/// the highest total, so no peak is lost. Columns before the first sample are zero.
using MemoryColumn = std::array<float, memory_category_count>;
std::vector<MemoryColumn> memory_columns(const RankTimeline& rank, const TimeWindow& window,
                                         std::size_t pixels);

}  // namespace lockstep::viz
