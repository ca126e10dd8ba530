#pragma once

#include <string>

#include "viz/read/explain/counterfactuals.h"

namespace lockstep {

/// Returns the table of the changes that would shorten a step by at least the fraction
/// `least_saving`, one row per length; changes that lead to the same length share a row. Empty if
/// all changes were tried and none would.
std::string counterfactual_table(const Counterfactuals& found);
constexpr double least_saving = 0.001;

}  // namespace lockstep
