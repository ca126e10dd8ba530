#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows the bubble of the step in view, both observed and predicted, and its trend over the steps.
/// For a run without a pipeline, shows the fraction of communication that is hidden behind compute.
class BubbleView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model) const;

 private:
  /// Returns the y below the bars.
  float draw_bars(const Painter& painter, const Rect& rect, const BubbleSeries::Point& point,
                  const Prediction& predicted) const;
  void draw_trend(const Painter& painter, const Rect& rect, Model& model, int shown,
                  bool pipeline) const;
};

}  // namespace lockstep::viz
