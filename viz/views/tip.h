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

/// Returns where a box of `size` explains `item` without covering `clear`, an area around the item
/// that the user looks at: on its right, else on its left; or, with `below`, below it, else above
/// it. Uses one of the other sides if neither has room within a window of size `window`.
Rect place_outside(const Rect& item, const Rect& clear, ImVec2 size, ImVec2 window, bool below,
                   float gap);

/// Draws lines of text in a box that place_outside() places.
void tip_outside(const Painter& painter, const Rect& item, const Rect& clear, bool below,
                 const std::vector<std::string>& lines);

}  // namespace lockstep::viz
