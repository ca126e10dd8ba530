#pragma once

#include "viz/data/model.h"
#include "viz/views/help_view.h"
#include "viz/views/open_view.h"
#include "viz/views/stall_view.h"

namespace lockstep::viz {

/// The whole window for flight-recorder dumps, which have no timeline: who waits for whom.
class StallScreen {
 public:
  void draw(Model& model, const Look& look);
  const StallView& view() const { return view_; }

 private:
  static void take_keys(Model& model);
  static void draw_bar(const Painter& painter, const Rect& rect, const Model& model);

  StallView view_;
  HelpView help_;
  OpenView open_;
};

}  // namespace lockstep::viz
