#pragma once

#include <climits>
#include <string>

#include "viz/read/report/report.h"

namespace lockstep {

/// Draws the run's last step, or if the phases are variants without a pipeline, each phase's last
/// step, with a heading; below them, the key to the symbols. If that takes more than `most_lines`
/// lines, draws only the last step, and only as many ranks as fit. With `window`, a heading also
/// says how long a pipeline's actions take.
std::string drawings(const Report& report, const Console& console, bool window,
                     int most_lines = INT_MAX);

}  // namespace lockstep
