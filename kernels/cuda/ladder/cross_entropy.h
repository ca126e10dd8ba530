#pragma once

#include <vector>

#include "kernels/cuda/ladder/step.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

using CrossEntropyStep = Step<decltype(Kernels::cross_entropy_forward)>;

/// Returns the steps before kernels/cuda/cross_entropy.cu, the naive one first. All compute the
/// results of Kernels::cross_entropy_forward.
std::vector<CrossEntropyStep> cross_entropy_ladder();

}  // namespace lockstep::cuda
