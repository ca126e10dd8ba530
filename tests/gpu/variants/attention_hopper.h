#pragma once

#include "kernels/cuda/attention_problem.cuh"
#include "kernels/kernels.h"

namespace lockstep::cuda::hopper {

/// Puts attention on Hopper's tensor cores in place of the kernels in use: for bf16 and heads of at
/// most 128 columns, with the same arguments, except that probabilities are not kept. Without
/// `causal`, every query attends to all keys. `groups` is the number of warpgroups of a block, 2 or
/// 3; the kernel for dk and dv has 2, and so has that for dq if heads have more than 64 columns.
void use_attention(Kernels& kernels, bool causal, int groups);

// Each in the file of its name.
void launch_forward(bool causal, int groups, Queue, const Problem&, View q, View k, View v, View y,
                    View lse);
void launch_backward(bool causal, int groups, Queue, const Problem&, View dy, View q, View k,
                     View v, View lse, const float* dots, View dq, View dk, View dv);

}  // namespace lockstep::cuda::hopper
