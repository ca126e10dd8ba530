#pragma once

#include "viz/app/options.h"
#include "viz/data/model.h"

namespace lockstep::viz {

/// Reads the traces that the options name into the model, and fits the window to --steps or, for a
/// long run, to its last steps. Throws UsageError if there is nothing to show.
void open_files(const ViewerOptions& options, Model& model);

}  // namespace lockstep::viz
