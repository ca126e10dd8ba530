#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// One version of attention_forward, from a ladder that begins with the most obvious one.
struct AttentionStep {
  std::string name;
  decltype(Kernels::attention_forward) forward;
};

/// Returns the steps before kernels/cuda/attention_f32_forward.cu, the naive one first. All compute
/// the results of Kernels::attention_forward, except the probabilities, which must be empty.
std::vector<AttentionStep> attention_ladder();

}  // namespace lockstep::cuda
