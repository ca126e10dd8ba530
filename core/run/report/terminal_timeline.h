#pragma once

#include <string>

#include "core/trace/timeline.h"

namespace lockstep {

/// One step as text: a row per rank, time to the right; each pipeline action begins with its
/// microbatch's digit (0-9, a-z, then #), where there are none each named stretch of compute with
/// its first letter; idle time is dots, and so is waiting, also within an action (whose label then
/// stands where it first computes). With colour, forwards are blue and backwards green;
/// without, forwards are filled with '-' and backwards with '='. `width` columns in all. Empty
/// where nothing was computed.
std::string draw_timeline(const Timeline& timeline, int step, int width, bool colour);

}  // namespace lockstep
