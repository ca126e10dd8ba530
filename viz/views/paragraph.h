#pragma once

#include <algorithm>
#include <string_view>

#include "viz/views/draw.h"

namespace lockstep::viz {

/// Draws text that continues on the next line after a space, in the small font. Returns the y below
/// the last line. A line that would not end above `rect.bottom` is left out.
inline float paragraph(const Painter& painter, const Rect& rect, std::string_view words,
                       ImU32 colour) {
  ImFont* font = painter.look().small;
  const float line = size_of(font) + painter.px(2);
  float y = rect.top;
  while (!words.empty() && y + line <= rect.bottom) {
    std::size_t end = words.size();
    while (painter.text_width(words.substr(0, end), font) > rect.width()) {
      const std::size_t space = words.substr(0, end).rfind(' ');
      if (space == std::string_view::npos || space == 0) break;
      end = space;
    }
    painter.text(rect.left, y, painter.fitted(words.substr(0, end), font, rect.width()), colour,
                 font);
    words.remove_prefix(std::min(end + 1, words.size()));
    y += line;
  }
  return y;
}

}  // namespace lockstep::viz
