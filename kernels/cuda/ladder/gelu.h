#pragma once

#include <vector>

#include "kernels/cuda/ladder/step.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

using GeluStep = Step<decltype(Kernels::gelu_forward)>;

/// Returns the steps before kernels/cuda/gelu.cu, the naive one first. All compute the results of
/// Kernels::gelu_forward.
std::vector<GeluStep> gelu_ladder();

}  // namespace lockstep::cuda
