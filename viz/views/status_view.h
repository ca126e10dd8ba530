#pragma once

#include "viz/data/window/model.h"
#include "viz/views/draw.h"
#include "viz/views/legend.h"

namespace lockstep::viz {

/// Draws the bar at the top (run, mesh and clock) and the lines at the bottom: the legend, and
/// notes about data that is not shown.
class StatusView {
 public:
  static constexpr float bar_height = 50;
  static constexpr float line_height = 24;  ///< of each line at the bottom

  /// Returns the height of the lines at the bottom of a window of this width, in pixels.
  static float height_of_line(const Painter& painter, float width, const Model& model,
                              const std::vector<std::string>& axes,
                              const Model* compared = nullptr);

  void draw_bar(const Painter& painter, const Rect& rect, const Model& model);
  /// Explains how the trace of another tool was read, if the cursor is on "inferred".
  void draw_notes(const Painter& painter, const Model& model) const;
  /// Names the straggler of the step, if there is one; a click on it goes to the rank. Draws the
  /// legend of `model`, for a step with these axes of communication. The notes about data
  /// that is not shown cover both runs.
  void draw_line(const Painter& painter, const Rect& rect, Model& model,
                 const std::vector<std::string>& axes, const Model* compared = nullptr) const;

 private:
  /// Draws the entries from left to right, in as many rows as they need, or, unless `draws`, only
  /// counts the rows.
  static int draw_legend(const Painter& painter, const Rect& rect,
                         const std::vector<LegendEntry>& legend, bool draws);
  static std::string notice_words(const Model& model, const Model* compared);
  /// Returns the x at which the straggler's name begins.
  float draw_straggler(const Painter& painter, const Rect& rect, Model& model) const;

  Rect notes_pill_{};  ///< in this frame; empty if the trace is Lockstep's
};

/// Names a run's clock: "modelled time of cluster classroom".
std::string clock_words(const RunInfo& run);

}  // namespace lockstep::viz
