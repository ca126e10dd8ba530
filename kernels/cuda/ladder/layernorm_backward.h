#pragma once

#include <vector>

#include "kernels/cuda/ladder/step.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

using LayerNormBackwardStep = Step<decltype(Kernels::layernorm_backward_input)>;

/// Returns the steps before kernels/cuda/layernorm_backward.cu, the naive one first. All compute
/// the results of Kernels::layernorm_backward_input.
std::vector<LayerNormBackwardStep> layernorm_backward_ladder();

}  // namespace lockstep::cuda
