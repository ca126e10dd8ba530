#pragma once

#include <memory>

#include "core/run/life/life.h"

namespace lockstep {

/// All ranks are threads of this process. `run` must outlive the launcher.
std::unique_ptr<Launcher> thread_launcher(ActiveRun& run);

}  // namespace lockstep
