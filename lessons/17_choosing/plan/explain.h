#pragma once

#include <string>

#include "lessons/17_choosing/plan/search.h"

namespace lockstep {

/// Explains a configuration: which ranks each number joins, where they are, and the benefit and
/// cost of the number. Times are those of the plan's replay; there are none if the plan does not
/// fit.
std::string explained(const TrainingTask& task, const RankedPlan& plan);

}  // namespace lockstep
