#pragma once

#include "core/run/options/options.h"

namespace lockstep {

/// Throws UsageError if --save or --report cannot be written to the given path, or if --view is not
/// an address. --trace is checked when the run's folder is created.
void check_paths(const Options& options);

}  // namespace lockstep
