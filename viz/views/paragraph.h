#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "viz/views/draw.h"

namespace lockstep::viz {

/// Draws text in lines that break at spaces, in the small font unless another is given. If the text
/// does not end above `rect.bottom`, the last line that does ends with an ellipsis. Returns the y
/// below the last line.
float paragraph(const Painter& painter, const Rect& rect, std::string_view words, ImU32 colour,
                ImFont* font = nullptr);
/// Returns the height that a text takes in lines of at most `width`.
float paragraph_height(const Painter& painter, std::string_view words, float width,
                       ImFont* font = nullptr);

/// Draws the sentences of a panel as paragraphs, the first in a different colour. Returns the y
/// below.
float explain(const Painter& painter, const Rect& rect, const std::vector<std::string>& sentences,
              ImU32 first = colours::text);
float explanation_height(const Painter& painter, const std::vector<std::string>& sentences,
                         float width);

}  // namespace lockstep::viz
