#pragma once

#include <string>

#include "core/run/launch/gpus.h"
#include "core/run/options/lesson_info.h"
#include "core/run/options/options.h"

namespace lockstep {

/// Prints the first lines of a run, unless --quiet: the ranks, the model, the GPUs and the clock.
/// `hosts` describes the hosts if there are several.
void introduce(const LessonInfo& info, const Options& options, const GpuPlan& gpus,
               const std::string& hosts = {});

}  // namespace lockstep
