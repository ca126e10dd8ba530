#pragma once

#include <string_view>

#include "viz/data/window/model.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Draws the card of a panel and returns the area inside. If the run has several panels for this
/// card, its title is a row of buttons, and a click on one sets `model.view.panel`. The note is to
/// the right of the title.
Rect panel_card(const Painter& painter, const Rect& rect, Panel panel, std::string_view note,
                Model& model);

}  // namespace lockstep::viz
