#pragma once

#include "viz/data/lab/lab_bench.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// Draws the table of all registered schedules at the lab's settings: its bubble by formula and as
/// simulated, the length of its step, and its peak memory; or why it does not run. Each row has
/// buttons that choose it as one of the two schedules on the axis.
void draw_lab_table(const Painter& painter, const Rect& rect, LabBench& lab);
/// Returns the height that the table needs.
float lab_table_height(const Painter& painter, const LabBench& lab);

}  // namespace lockstep::viz
