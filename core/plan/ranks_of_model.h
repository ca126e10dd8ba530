#pragma once

#include <vector>

#include "core/plan/plan.h"

namespace lockstep {

/// Returns whether the mesh divides single layers: whether any parameter is cut among ranks.
bool divides_layers(const Plan& plan);

/// Returns the ranks among which the model's parameters are divided and which include `rank`: its
/// pipeline and, if layers are divided, the ranks that share its layers. Ascending.
std::vector<int> ranks_of_model(const Plan& plan, int rank);

/// Returns whether `rank` is the first of the ranks_of_model() on its stage that hold the same
/// slice of a parameter: the only one if the parameter is cut, else the one with coordinate 0.
bool is_first_holder(const Plan& plan, const ParameterSpec& spec, int rank);

}  // namespace lockstep
