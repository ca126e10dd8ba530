#pragma once

#include "viz/data/window/model.h"
#include "viz/views/help_view.h"
#include "viz/views/open_view.h"
#include "viz/views/stall_view.h"

namespace lockstep::viz {

/// Fills the window with the stall that flight-recorder dumps show; they contain no timeline.
class StallScreen {
 public:
  void draw(Model& model, const Look& look);

 private:
  static void take_keys(Model& model);
  static void draw_bar(const Painter& painter, const Rect& rect, const Model& model);

  StallView view_;
  HelpView help_;
  OpenView open_;
};

}  // namespace lockstep::viz
