#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <unordered_map>
#include <vector>

#include "viz/data/layout/viewport.h"
#include "viz/data/step/straggler.h"
#include "viz/read/timeline/step_account.h"

namespace lockstep::viz {

/// A step's loss: the mean over the ranks that report one.
struct LossPoint {
  int step = 0;  ///< counted from the first report
  double loss = 0;
};
std::vector<LossPoint> loss_series(const Timeline& timeline);

/// Where the time of each completed step goes, and the bubble of its pipeline. Both are computed
/// when they are first shown, because a trace may have many steps with many spans each.
class BubbleSeries {
 public:
  using Clock = std::chrono::steady_clock;
  struct Point {
    int step = 0;
    StepAccount account{};  ///< without pieces
    // The schedule's figures for a pipeline's actions; their windows differ from the step.
    Bubble bubble{};    ///< its window is 0 without a pipeline
    Bubble internal{};  ///< of `longest_rank`
    std::optional<Straggler> straggler{};
    std::optional<Awaited> awaited{};
    int longest_rank = -1;  ///< the rank whose pipeline actions extend over the longest time
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
