#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "viz/data/lab/lab_settings.h"
#include "viz/data/lab/observed_step.h"
#include "viz/views/draw.h"

namespace lockstep::viz {

/// The input of draw_lab_schedule().
struct LabDrawing {
  const LabResult& result;
  Picoseconds end = 1;                     ///< the time at the right edge
  const ObservedStep* observed = nullptr;  ///< drawn over the lower part of each lane
  int memory_limit = 0;                    ///< see LabSettings::memory_limit
};

/// Draws a simulated schedule, one lane per rank, and below each lane, if there is room, its live
/// microbatches over time; what exceeds the memory limit is marked. Shows a tip about the action
/// under the cursor.
void draw_lab_schedule(const Painter& painter, const Rect& rect, const LabDrawing& drawing);

/// The width of the ranks' names, left of the lanes.
float lab_names_width(const Painter& painter);
/// Draws the times of an axis from 0 to `end` above lanes that begin at `rect.left` plus
/// lab_names_width().
void draw_lab_axis(const Painter& painter, const Rect& rect, Picoseconds end);

}  // namespace lockstep::viz
