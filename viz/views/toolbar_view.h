#pragma once

#include "viz/data/window/model.h"
#include "viz/views/button.h"

namespace lockstep::viz {

/// The row of buttons above the timeline. Each button names its key.
class ToolbarView {
 public:
  static constexpr float height = 34;

  /// Returns 1 or -1 if the user asked for the next or previous span that the search finds.
  int draw(const Painter& painter, const Rect& rect, Model& model);

 private:
  /// Draws as many of the buttons at the right end as fit beside `least`. Returns the width that
  /// all of them would take if they were not compact.
  float draw_right(const Painter& painter, const Rect& rect, float least, Model& model) const;
  void draw_playback(ButtonRow& row, Model& model) const;
  int draw_search(ButtonRow& row, Model& model);

  bool was_searching_ = false;
  bool compact_ = false;  ///< whether the buttons had no room for their words in the last frame
};

}  // namespace lockstep::viz
