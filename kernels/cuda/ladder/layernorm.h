#pragma once

#include <vector>

#include "kernels/cuda/ladder/step.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

using LayerNormStep = Step<decltype(Kernels::layernorm_forward)>;

/// Returns the steps before kernels/cuda/layernorm_forward.cu, the naive one first. All compute the
/// results of Kernels::layernorm_forward.
std::vector<LayerNormStep> layernorm_ladder();

}  // namespace lockstep::cuda
