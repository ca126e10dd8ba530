#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// The row of buttons above the timeline. Each button names its key.
class ToolbarView {
 public:
  static constexpr float height = 34;

  void draw(const Painter& painter, const Rect& rect, Model& model) const;
};

}  // namespace lockstep::viz
