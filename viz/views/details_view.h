#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// What the cursor is on, in words, beside it; and what was clicked, kept in a corner.
class DetailsView {
 public:
  /// `area` is where the kept one goes: its bottom right corner.
  void draw(const Painter& painter, const Rect& area, const Model& model) const;
};

}  // namespace lockstep::viz
