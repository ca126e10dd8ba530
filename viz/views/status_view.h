#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Draws the bar at the top (run, mesh and clock) and the line at the bottom (colour legend and
/// keys).
class StatusView {
 public:
  static constexpr float bar_height = 50;
  static constexpr float line_height = 30;

  void draw_bar(const Painter& painter, const Rect& rect, const Model& model) const;
  /// Draws the legend of `model`, for a step with these axes of communication. The notes about data
  /// that is not shown cover both runs.
  void draw_line(const Painter& painter, const Rect& rect, const Model& model,
                 const std::vector<std::string>& axes, const Model* compared = nullptr) const;
};

/// Names a run's clock: "modelled time of cluster classroom".
std::string clock_words(const RunInfo& run);

}  // namespace lockstep::viz
