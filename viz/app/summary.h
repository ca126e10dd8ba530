#pragma once

#include <string>

#include "viz/app/options.h"

namespace lockstep::viz {

/// Returns what --summary prints: for flight-recorder dumps, who waits for whom. Throws UsageError
/// if the files are none.
std::string summary_of(const ViewerOptions& options);

}  // namespace lockstep::viz
