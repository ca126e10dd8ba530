#pragma once

#include <string>

#include "viz/app/options.h"

namespace lockstep::viz {

/// Returns what --summary prints: for flight-recorder dumps, who waits for whom; for traces, where
/// the time of each rank went. Throws UsageError if the files are neither.
std::string summary_of(const ViewerOptions& options);

}  // namespace lockstep::viz
