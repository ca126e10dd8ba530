#pragma once

#include <string>

#include "viz/views/draw.h"

namespace lockstep::viz {

/// Begins a window without decoration over all others; end it with ImGui::End().
void begin_overlay(const char* name, ImVec2 at, ImVec2 size);

/// Lays out small buttons from left to right.
class ButtonRow {
 public:
  /// In a `compact` row, a button that names its key, as in "P  Critical path", shows only the key.
  ButtonRow(const Painter& painter, const Rect& rect, float left, bool compact = false)
      : painter_(painter), rect_(rect), x_(left), compact_(compact) {}

  /// Shows tips above the buttons instead of below, where they would cover what the row is about.
  void put_tips_above() { tips_above_ = true; }
  /// Begins another line, `height` below, before each button that does not fit into the row.
  void break_lines(float height) { line_ = height; }
  /// The bottom of the last line.
  float bottom() const { return rect_.bottom; }
  /// Draws a button and returns whether it was clicked. A button that is `on` is filled. `tip` is
  /// shown below the button, in several lines if it is long, while the cursor is on it.
  bool button(const std::string& words, bool on, const std::string& tip);
  /// Draws text between buttons.
  void text(const std::string& words, ImU32 colour);
  /// Leaves room for `width` pixels and returns their rectangle.
  Rect space(float width);
  /// The position at which the next button begins.
  float left() const { return x_; }
  const Painter& painter() const { return painter_; }
  /// Returns the width of a button, including the gap to the next one.
  static float width_of(const Painter& painter, const std::string& words, bool compact = false);
  /// The width that the buttons and texts drawn so far would take if they were not compact.
  float full_width() const { return full_width_; }
  static float gap_of(const Painter& painter);

 private:
  void draw_tip(const Rect& button, const std::string& tip) const;

  const Painter& painter_;
  Rect rect_;
  float x_;
  bool compact_;
  bool tips_above_ = false;
  float line_ = 0;  ///< the height of a line; 0: the row has only one
  float full_width_ = 0;
};

}  // namespace lockstep::viz
