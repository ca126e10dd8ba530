#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// The bar at the top: what runs, on which mesh, and which clock its times are of; and the line at
/// the bottom: what the colours mean, and which keys do what.
class StatusView {
 public:
  static constexpr float bar_height = 50;
  static constexpr float line_height = 30;

  void draw_bar(const Painter& painter, const Rect& rect, const Model& model) const;
  void draw_line(const Painter& painter, const Rect& rect, const Model& model) const;
};

}  // namespace lockstep::viz
