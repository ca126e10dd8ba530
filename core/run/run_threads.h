#pragma once

#include <functional>

#include "core/run/rank.h"

namespace lockstep {

struct ActiveRun;
class SignalWatch;

/// Runs all ranks as threads of this process, and concludes the run. If a rank fails, prints the
/// cause and every rank's last operations to stderr. Returns the exit code. If a rank does not end
/// after another has failed, ends the process.
int run_threads(ActiveRun& run, const std::function<void(Rank&)>& body, SignalWatch& watch);

}  // namespace lockstep
