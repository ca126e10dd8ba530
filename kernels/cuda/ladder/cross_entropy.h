#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// One version of cross_entropy_forward, from a ladder that begins with the most obvious one.
struct CrossEntropyStep {
  std::string name;
  decltype(Kernels::cross_entropy_forward) forward;
};

/// Returns the steps before kernels/cuda/cross_entropy.cu, the naive one first. All compute the
/// results of Kernels::cross_entropy_forward.
std::vector<CrossEntropyStep> cross_entropy_ladder();

}  // namespace lockstep::cuda
