#pragma once

#include <array>
#include <vector>

#include "core/trace/analysis.h"
#include "viz/data/viewport.h"

namespace lockstep::viz {

/// A step's loss: the mean over the ranks that report one.
struct LossPoint {
  int step = 0;  ///< counted from the first report
  double loss = 0;
};
std::vector<LossPoint> loss_series(const Timeline& timeline);

/// The bubble and overlap of each completed step, updated as steps end.
class BubbleSeries {
 public:
  struct Point {
    int step = 0;
    Bubble bubble{};
    Bubble internal{};
    Overlap overlap{};
    StepParts parts{};  ///< summed over ranks
  };
  /// Adds the steps that have ended since the last call.
  void update(const Timeline& timeline);
  void clear() { points_.clear(), looked_at_ = 0; }
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
  std::size_t looked_at_ = 0;
};

/// Returns one rank's memory over a window, one column per pixel. Each column holds its sample with
/// the highest total, so no peak is lost. Columns before the first sample are zero.
using MemoryColumn = std::array<float, memory_category_count>;
std::vector<MemoryColumn> memory_columns(const RankTimeline& rank, const TimeWindow& window,
                                         std::size_t pixels);

/// Returns the sample with the highest total, or null if there are none.
const MemorySample* memory_peak(const RankTimeline& rank);
std::int64_t total(const MemorySample& sample);

}  // namespace lockstep::viz
