#pragma once

#include "viz/data/lab/lab_bench.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Begins an area that scrolls if its widgets need more height than `rect` has; end it with
/// ImGui::EndChild(). Widgets in it are small.
void begin_area(const Painter& painter, const char* name, const Rect& rect);
void end_area();

/// Draws the sliders of the lab's settings. `from_run` shows a button that takes over the values of
/// the run on the timeline. Returns whether it was clicked.
bool draw_lab_controls(const Painter& painter, const Rect& rect, LabBench& lab, bool from_run);

}  // namespace lockstep::viz
