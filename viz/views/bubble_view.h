#pragma once

#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows where the time of the step in view goes: a bar of the mean step over the ranks, with a
/// legend, and sentences. For a pipeline, also shows the bubble of its actions, observed and
/// predicted. Below, shows the trend over the steps.
class BubbleView {
 public:
  void draw(const Painter& painter, const Rect& rect, Model& model) const;

 private:
  // These functions return the y below their drawing.
  float draw_headline(const Painter& painter, const Rect& rect, const StepAccount& account) const;
  float draw_bar(const Painter& painter, const Rect& rect, const StepAccount& account) const;
  float draw_legend(const Painter& painter, const Rect& rect, const StepAccount& account) const;
  float draw_bubble(const Painter& painter, const Rect& rect, const BubbleSeries::Point& point,
                    const Prediction& predicted) const;
  /// Says how much shorter the step would be without its straggler, if the run can be replayed. A
  /// click opens the panel Retime with this change.
  float draw_cost(const Painter& painter, const Rect& rect, const BubbleSeries::Point& point,
                  Model& model, float bottom) const;
  void draw_trend(const Painter& painter, const Rect& rect, Model& model, int shown,
                  bool pipeline) const;
};

}  // namespace lockstep::viz
