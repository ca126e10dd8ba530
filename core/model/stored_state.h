#pragma once

#include <vector>

#include "core/model/adamw.h"
#include "core/model/parameter.h"
#include "core/plan/stored_slices.h"

namespace lockstep {

/// Returns the slices of which a rank stores values, gradients and optimizer states between steps.
/// `parameters` are those that it stores, or slices of them. A gradient counts if it has storage
/// now: that of a parameter or, if that one has none, that of the optimizer's part of it.
StoredSlices stored_state(const std::vector<Parameter*>& parameters, const AdamW& optimizer);

}  // namespace lockstep
