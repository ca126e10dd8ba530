#pragma once

#include <vector>

#include "kernels/cuda/ladder/step.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

using MatrixProductStep = Step<decltype(Kernels::linear_forward)>;

/// Returns the steps before kernels/cuda/linear.cu, the naive one first. All compute the results of
/// Kernels::linear_forward.
std::vector<MatrixProductStep> matrix_product_ladder();

}  // namespace lockstep::cuda
