#pragma once

#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// Names the schedule of a pipeline whose trace another tool wrote: the one that the lessons
/// generate with exactly these actions in this order on every rank. Adds it to the timeline's
/// predictions, and a note. Without such a schedule, adds only a note that says so.
void name_schedule(Timeline& timeline);

}  // namespace lockstep::viz
