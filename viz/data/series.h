#pragma once

#include <array>
#include <vector>

#include "core/trace/analysis.h"
#include "viz/data/viewport.h"

namespace lockstep::viz {

/// The loss per step, over all ranks that report one: of several in a step the mean.
struct LossPoint {
  int step = 0;  ///< counted from the first report of a rank
  double loss = 0;
};
std::vector<LossPoint> loss_series(const Timeline& timeline);

/// What the steps of a run had for a bubble, kept up as they end.
class BubbleSeries {
 public:
  struct Point {
    int step = 0;
    Bubble bubble{};
    Bubble internal{};
    Overlap overlap{};
    StepParts parts{};  ///< summed over ranks
  };
  /// Looks at steps that have ended since the last call.
  void update(const Timeline& timeline);
  void clear() { points_.clear(), looked_at_ = 0; }
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
  std::size_t looked_at_ = 0;
};

/// Memory of one rank over a window, a column per `pixels`: of each column the sample with the
/// highest total, so that no peak is lost. Columns before the first sample are all zero.
using MemoryColumn = std::array<float, memory_category_count>;
std::vector<MemoryColumn> memory_columns(const RankTimeline& rank, const TimeWindow& window,
                                         std::size_t pixels);

/// The sample with the highest total; null without samples.
const MemorySample* memory_peak(const RankTimeline& rank);
std::int64_t total(const MemorySample& sample);

}  // namespace lockstep::viz
