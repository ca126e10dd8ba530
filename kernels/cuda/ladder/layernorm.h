#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// One version of layernorm_forward, from a ladder that begins with the most obvious one.
struct LayerNormStep {
  std::string name;
  decltype(Kernels::layernorm_forward) forward;
};

/// Returns the steps before kernels/cuda/layernorm_forward.cu, the naive one first. All compute the
/// results of Kernels::layernorm_forward.
std::vector<LayerNormStep> layernorm_ladder();

}  // namespace lockstep::cuda
