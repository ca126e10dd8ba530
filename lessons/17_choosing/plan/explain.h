#pragma once

#include <string>

#include "lessons/17_choosing/plan/search.h"

namespace lockstep {

/// Reads a configuration aloud: which ranks each number joins, where they are, what the number buys
/// and what it costs. Times are those of the plan's replay; there are none if it does not fit.
std::string explained(const TrainingTask& task, const RankedPlan& plan);

}  // namespace lockstep
