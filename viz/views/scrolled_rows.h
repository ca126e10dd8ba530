#pragma once

#include "viz/views/draw.h"

namespace lockstep::viz {

/// The scroll position of a list of rows of which only some fit.
class ScrolledRows {
 public:
  /// Takes the wheel while the cursor is in `area`, and draws a bar in `bar` that shows which of
  /// `count` rows are visible. Returns the first of the `shown` rows.
  std::size_t update(const Painter& painter, const Rect& area, const Rect& bar, std::size_t count,
                     std::size_t shown);
  void to_start() { first_ = 0; }
  std::size_t first() const { return first_; }
  /// Returns whether the wheel scrolled in this frame.
  bool scrolled() const { return scrolled_; }

 private:
  std::size_t first_ = 0;
  bool scrolled_ = false;
};

}  // namespace lockstep::viz
