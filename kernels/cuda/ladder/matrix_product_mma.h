#pragma once

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// Kernels::linear_forward on tensor cores, for bf16 and f16; throws std::invalid_argument for f32.
void linear_forward_mma(Queue queue, In x, In w, In bias, Out y, WeightLayout layout);

}  // namespace lockstep::cuda
