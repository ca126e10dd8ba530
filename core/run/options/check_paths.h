#pragma once

#include "core/run/options/options.h"

namespace lockstep {

/// Throws UsageError unless the run can write --save and --report at the given paths, and --view is
/// an address. --trace is checked when the run's folder is created.
void check_paths(const Options& options);

}  // namespace lockstep
