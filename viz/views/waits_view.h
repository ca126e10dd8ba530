#pragma once

#include <optional>
#include <vector>

#include "viz/data/window/longest_waits.h"
#include "viz/views/draw.h"
#include "viz/views/scrolled_rows.h"

namespace lockstep::viz {

/// Lists the longest waits of the step in view.
class WaitsView {
 public:
  /// Returns the wait that the user has clicked.
  std::optional<Finding> draw(const Painter& painter, const Rect& rect, Model& model);
  /// The rows of the list on the screen, from the first that is visible on.
  const std::vector<Rect>& rows() const { return rows_; }

 private:
  LongestWaits waits_;
  ScrolledRows scroll_;
  std::vector<Rect> rows_;
};

}  // namespace lockstep::viz
