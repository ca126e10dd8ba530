#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows descriptions of the object under the cursor, next to it, and of the last clicked object,
/// in a corner.
class DetailsView {
 public:
  /// Puts the clicked object's description in the bottom right corner of `area`.
  void draw(const Painter& painter, const Rect& area, const Model& model) const;
};

}  // namespace lockstep::viz
