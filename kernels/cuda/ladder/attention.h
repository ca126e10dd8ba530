#pragma once

#include <vector>

#include "kernels/cuda/ladder/step.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

using AttentionStep = Step<decltype(Kernels::attention_forward)>;

/// Returns the steps before kernels/cuda/attention_f32_forward.cu, the naive one first. All compute
/// the results of Kernels::attention_forward, except the probabilities, which must be empty.
std::vector<AttentionStep> attention_ladder();

}  // namespace lockstep::cuda
