#pragma once

#include <string>

#include "viz/data/layout/strip_layout.h"
#include "viz/data/window/model.h"

namespace lockstep::viz {

/// Returns the visible range of the timeline as an SVG picture `width` pixels wide, in the colours
/// of the theme: an axis, the steps, and the strips of `layout` with idle time by cause, boxes and
/// messages. Needs no window.
std::string timeline_svg(Model& model, const StripLayout& layout, int width);

/// Returns a layout with all lanes of all ranks, for pictures without a screen.
StripLayout whole_layout(const Timeline& timeline);

}  // namespace lockstep::viz
