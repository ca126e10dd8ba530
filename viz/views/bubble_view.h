#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// The bubble of the step in view, observed against predicted, and how it went from step to step.
/// For a run without a pipeline, how much of its communication hides behind compute.
class BubbleView {
 public:
  void draw(const Painter& painter, const Rect& rect, const Model& model) const;

 private:
  /// Returns where they end.
  float draw_bars(const Painter& painter, const Rect& rect, const BubbleSeries::Point& point,
                  const Prediction& predicted) const;
  void draw_trend(const Painter& painter, const Rect& rect, const Model& model, int shown,
                  bool pipeline) const;
};

}  // namespace lockstep::viz
