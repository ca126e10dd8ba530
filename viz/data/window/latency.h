#pragma once

#include <cstdint>
#include <vector>

#include "viz/data/layout/viewport.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// Measures display latency: the time from a span's end until the buffer swap of the first frame
/// that shows the span returns. The end is a time on the rank's steady clock, so the result is
/// valid only for runs on this machine with the wall clock, while the window follows the run.
class LatencyMeter {
 public:
  /// New spans, collected by Timeline::watch.
  std::vector<Timeline::FreshSpan>& fresh() { return fresh_; }
  /// Records that the frame showing `window` of `timeline` was swapped at `steady_ns`.
  void swapped(const Timeline& timeline, const TimeWindow& window, std::int64_t steady_ns);
  void clear();

  struct Summary {
    std::int64_t count = 0;
    std::int64_t not_shown = 0;        ///< spans that arrived outside the window
    double p50 = 0, p95 = 0, max = 0;  ///< milliseconds
  };
  Summary summary() const;

 private:
  std::vector<Timeline::FreshSpan> fresh_;
  std::vector<float> milliseconds_;
  std::int64_t not_shown_ = 0;
};

}  // namespace lockstep::viz
