#pragma once

#include <climits>
#include <string>

#include "viz/read/report/report.h"

namespace lockstep {

/// Draws the run's last step, or if the phases are variants without a pipeline, each phase's last
/// step, with a heading; below them, the key to the symbols. At most `most_rows` ranks are drawn,
/// and then only of the last step. With `window`, a heading also says how long a pipeline's actions
/// take.
std::string drawings(const Report& report, const Console& console, bool window,
                     int most_rows = INT_MAX);

}  // namespace lockstep
