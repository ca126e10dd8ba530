#pragma once

#include "viz/data/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows a tooltip for the object under the cursor and, in a corner, a description of the last
/// clicked object.
class DetailsView {
 public:
  /// Puts the clicked object's description in the bottom right corner of `area`.
  void draw(const Painter& painter, const Rect& area, const Model& model) const;
};

}  // namespace lockstep::viz
