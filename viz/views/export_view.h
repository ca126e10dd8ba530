#pragma once

#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// The choice of exports, in the middle of the window, and the file that was written last.
class ExportView {
 public:
  void draw(const Look& look, ImVec2 size, Model& model) const;
};

}  // namespace lockstep::viz
