#pragma once

#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Shows a tooltip for the object under the cursor and, on a card, the selected object or range.
class DetailsView {
 public:
  /// Returns whether there is a selection to describe.
  static bool has_selection(const Model& model);
  void draw_selection(const Painter& painter, const Rect& card, Model& model) const;
  /// Draws a table of each rank's activity in a range: shares of the range's length, which add up
  /// to it, and bytes.
  static void draw_ranks(const Painter& painter, const Rect& inside, const RangeStatistics& range);
  /// Draws the tooltip above or below the row that it explains, never over it.
  void draw_tooltip(const Painter& painter, Model& model) const;
};

}  // namespace lockstep::viz
