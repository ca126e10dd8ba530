#pragma once

#include <imgui.h>

#include <string>
#include <string_view>
#include <vector>

#include "viz/views/theme.h"

namespace lockstep::viz {

/// A rectangle on the screen, in pixels.
struct Rect {
  float left = 0, top = 0, right = 0, bottom = 0;
  float width() const { return right - left; }
  float height() const { return bottom - top; }
  ImVec2 min() const { return {left, top}; }
  ImVec2 max() const { return {right, bottom}; }
  bool contains(ImVec2 point) const {
    return point.x >= left && point.x < right && point.y >= top && point.y < bottom;
  }
  Rect inset(float by) const { return {left + by, top + by, right - by, bottom - by}; }
};

/// Returns the integer part of a number, or 0 if the number is negative.
inline std::size_t whole_number(float number) {
  return number >= 1 ? static_cast<std::size_t>(number) : 0;
}

/// Returns at most the first 512 bytes of a text: a trace may contain texts of any length, but no
/// screen has room for more.
std::string_view beginning(std::string_view text);

enum class Align { left, centre, right };

/// Draws into a draw list in a given look. It is cheap enough to be created for every frame.
class Painter {
 public:
  Painter(ImDrawList* list, const Look& look) : list_(list), look_(look) {}

  ImDrawList* list() const { return list_; }
  const Look& look() const { return look_; }
  float px(float units) const { return look_.px(units); }

  void fill(const Rect& rect, ImU32 colour, float rounding = 0) const {
    list_->AddRectFilled(rect.min(), rect.max(), colour, rounding);
  }
  void frame(const Rect& rect, ImU32 colour, float rounding = 0, float thickness = 1) const {
    list_->AddRect(rect.min(), rect.max(), colour, rounding, 0, thickness);
  }
  void line(float x0, float y0, float x1, float y1, ImU32 colour, float thickness = 1) const {
    list_->AddLine({x0, y0}, {x1, y1}, colour, thickness);
  }
  /// Draws parallel lines that continue from one rectangle to the next.
  void hatch(const Rect& rect, ImU32 colour, Hatch lines = {}) const;
  /// Shades idle time: hatched, in the colour and at the angle of its cause.
  void idle(const Rect& rect, ImU32 colour, Hatch lines = {}) const;
  /// The two layers of idle time. Draw the fills of many rectangles before their hatches: changing
  /// from one to the other takes as long as drawing a hundred rectangles.
  void idle_fill(const Rect& rect, ImU32 colour, float opacity) const;
  void idle_hatch(const Rect& rect, ImU32 colour, float opacity, Hatch lines = {}) const;
  /// Draws a dashed horizontal line.
  void dashes(float x0, float x1, float y, ImU32 colour) const;

  float text_width(std::string_view text, ImFont* font) const;
  /// Returns the text or, if it does not fit into `width`, its beginning with an ellipsis.
  std::string fitted(std::string_view text, ImFont* font, float width) const;
  /// Draws text with its top at `y`; `x` is the left, middle or right of the text, depending on
  /// `align`. Returns its width.
  float text(float x, float y, std::string_view text, ImU32 colour, ImFont* font,
             Align align = Align::left) const;
  /// Draws text with a background of its own, over what was drawn before.
  void label(const Rect& rect, ImVec2 at, std::string_view words, ImU32 ground, ImU32 ink,
             ImFont* font) const;
  /// Centres text in a rectangle if it fits with some margin; returns whether it did.
  bool text_in(const Rect& rect, std::string_view text, ImU32 colour, ImFont* font) const;
  /// Drops clauses, which "; " separates, from the end of the text until it fits into `width`;
  /// returns "" if not even one fits.
  std::string clauses_that_fit(std::string_view text, ImFont* font, float width) const;
  /// Draws a card with a title, and as many clauses of a note as fit. Returns the area inside.
  Rect card(const Rect& rect, std::string_view title, std::string_view note = {}) const;
  /// Draws a rounded label. Returns its width.
  float pill(float x, float y, std::string_view text, ImU32 colour, bool filled) const;

 private:
  ImDrawList* list_;
  const Look& look_;
};

/// Shows lines of text above a row of a card while the cursor is on the row.
void tip(const Painter& painter, const Rect& row, const std::vector<std::string>& lines);

}  // namespace lockstep::viz
