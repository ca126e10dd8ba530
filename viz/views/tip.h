#pragma once

#include <string>
#include <vector>

#include "viz/views/draw.h"

namespace lockstep::viz {

/// Draws lines of text in a box beside the cursor; the first line is the title. The box begins at
/// `below`, or ends at `above` if there is no room for it.
void draw_tip(const Painter& painter, float above, float below,
              const std::vector<std::string>& lines, ImU32 colour);

/// Draws the same box below a rectangle.
void draw_tip(const Painter& painter, const Rect& rect, const std::vector<std::string>& lines,
              ImU32 colour);

}  // namespace lockstep::viz
