#pragma once

#include <string>

#include "core/trace/timeline.h"

namespace lockstep {

/// One step's pipeline actions as text: a row per rank, time to the right, each action with its
/// microbatch's digit (0-9, a-z, then #) at its start; idle time is dots. With colour, forwards are
/// blue and backwards green; without, forwards are filled with '-' and backwards with '='. `width`
/// columns in all. Empty where the step has no pipeline actions.
std::string draw_timeline(const Timeline& timeline, int step, int width, bool colour);

}  // namespace lockstep
