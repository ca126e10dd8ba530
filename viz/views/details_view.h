#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Describes the object under the cursor beside it, and the last clicked one in a corner.
class DetailsView {
 public:
  /// Puts the clicked object's description in the bottom right corner of `area`.
  void draw(const Painter& painter, const Rect& area, const Model& model) const;
};

}  // namespace lockstep::viz
