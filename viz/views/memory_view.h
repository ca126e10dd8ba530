#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Plots each rank's memory over the time window, stacked by category, and marks each rank's peak.
/// All ranks share one scale.
class MemoryView {
 public:
  void draw(const Painter& painter, const Rect& rect, const Model& model) const;

 private:
  void draw_rank(const Painter& painter, const Rect& rect, const RankTimeline& rank,
                 const TimeWindow& window, double top) const;
  /// Returns the bottom of the legend, which may take two lines.
  float draw_legend(const Painter& painter, const Rect& rect) const;
};

}  // namespace lockstep::viz
