#pragma once

#include <climits>
#include <string>

#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// Draws one step as text: a row per rank, with time to the right. Each pipeline action begins with
/// a symbol for its microbatch (0-9, a-z, then #); without pipeline actions, each named compute
/// span begins with its first letter. Dots mark idle time, and also waiting within an action. If an
/// action begins by waiting, its label appears where it first computes. With colour, forward passes
/// are blue and backward passes green; without colour, forward passes are filled with '-' and
/// backward passes with '='. `width` is the total number of columns. At most `most_rows` ranks have
/// a row; a line counts the others. Empty if nothing was computed.
std::string draw_timeline(const Timeline& timeline, int step, int width, bool colour,
                          int most_rows = INT_MAX);

}  // namespace lockstep
