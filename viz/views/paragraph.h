#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "viz/views/draw.h"

namespace lockstep::viz {

/// Draws text in lines that break at spaces, in the small font unless another is given. If the text
/// does not end above `rect.bottom`, the last line that does ends with an ellipsis. Returns the y
/// below the last line.
/// With `link`, each "rank N" in the text is a link: a click on it sets `*link` to N.
float paragraph(const Painter& painter, const Rect& rect, std::string_view words, ImU32 colour,
                ImFont* font = nullptr, std::optional<int>* link = nullptr);
/// Draws a line of text whose mentions of ranks are links, as in a paragraph. Returns its width.
float text_with_links(const Painter& painter, float x, float y, std::string_view words,
                      ImU32 colour, ImFont* font, std::optional<int>& link);
/// Returns the height that a text takes in lines of at most `width`.
float paragraph_height(const Painter& painter, std::string_view words, float width,
                       ImFont* font = nullptr);

/// Draws the sentences of a panel as paragraphs, the first in a different colour. Returns the y
/// below.
float explain(const Painter& painter, const Rect& rect, const std::vector<std::string>& sentences,
              ImU32 first = palette.text, std::optional<int>* link = nullptr);
float explanation_height(const Painter& painter, const std::vector<std::string>& sentences,
                         float width);

}  // namespace lockstep::viz
