#pragma once

#include <vector>

#include "core/model/adamw.h"
#include "core/model/parameter.h"
#include "core/plan/stored_slices.h"

namespace lockstep {

/// Returns the slices of the values, gradients and optimizer states that a rank stores between
/// steps. `parameters` are the parameters that it stores, or slices of them. A gradient counts if
/// it has storage now: the parameter's gradient or, if that has none, the gradient of the
/// optimizer's part of the parameter.
StoredSlices stored_state(const std::vector<Parameter*>& parameters, const AdamW& optimizer);

}  // namespace lockstep
