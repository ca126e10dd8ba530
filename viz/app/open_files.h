#pragma once

#include <memory>

#include "viz/app/options.h"
#include "viz/data/window/compared_runs.h"

namespace lockstep::viz {

/// Reads the traces that the options name into the model, and fits the window to --steps or, for a
/// long run, to its last steps. If the traces come from two runs, the model holds the first run,
/// and the function returns their comparison; otherwise, it returns null. Throws UsageError if
/// there is nothing to show.
std::unique_ptr<ComparedRuns> open_files(const ViewerOptions& options, Model& model);

}  // namespace lockstep::viz
