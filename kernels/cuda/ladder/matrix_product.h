#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// One version of linear_forward, from a ladder that begins with the most obvious one.
struct MatrixProductStep {
  std::string name;
  decltype(Kernels::linear_forward) forward;
};

/// Returns the steps before kernels/cuda/linear.cu, the naive one first. All compute the results of
/// Kernels::linear_forward.
std::vector<MatrixProductStep> matrix_product_ladder();

}  // namespace lockstep::cuda
