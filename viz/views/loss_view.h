#pragma once

#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Plots the loss per step.
class LossView {
 public:
  void draw(const Painter& painter, const Rect& rect, const Model& model) const;
};

}  // namespace lockstep::viz
