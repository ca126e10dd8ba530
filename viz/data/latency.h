#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/timeline.h"
#include "viz/data/viewport.h"

namespace lockstep::viz {

/// How long after its end a span is on the screen: from the end of the span on its rank's steady
/// clock to the return of the buffer swap of the first frame that shows it. Means something only
/// for the wall clock of a run on this machine, and only while the window follows the run.
class LatencyMeter {
 public:
  /// New spans are collected here, by Timeline::watch.
  std::vector<Timeline::FreshSpan>& fresh() { return fresh_; }
  /// The frame that shows `window` of `timeline` was swapped at `steady_ns`.
  void swapped(const Timeline& timeline, const TimeWindow& window, std::int64_t steady_ns);
  void clear();

  struct Summary {
    std::int64_t count = 0;
    std::int64_t not_shown = 0;        ///< spans that came when the window was elsewhere
    double p50 = 0, p95 = 0, max = 0;  ///< milliseconds
  };
  Summary summary() const;

 private:
  std::vector<Timeline::FreshSpan> fresh_;
  std::vector<float> milliseconds_;
  std::int64_t not_shown_ = 0;
};

}  // namespace lockstep::viz
