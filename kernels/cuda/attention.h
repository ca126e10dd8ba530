#pragma once

/// Causal attention on CUDA; DeviceKernels calls these functions. Their contracts are those of
/// Kernels::attention_forward and attention_backward (kernels/kernels.h).
///
/// The algorithm is FlashAttention (Dao 2022) and FlashAttention-2 (Dao 2023). Reading order:
///
///     attention_f32_forward.cu    the idea, in plain CUDA: tiles, online softmax
///     attention_f32_backward.cu   the same backward
///     attention_tile.cuh          tiles and products on tensor cores
///     attention_forward.cu        forward for bf16 and f16
///     attention_backward.cu       backward for bf16 and f16
///
/// A head has at most 128 columns; more throws std::invalid_argument. Backward allocates 4 bytes
/// per row and head from the stream-ordered pool and frees them on the same queue.
///
/// Every sum has a fixed order that depends only on s and the head size, without atomics, so a
/// result has the same bits in every run, for any alignment of the views and any batch size.

#include "kernels/kernels.h"

namespace lockstep::cuda {

void attention_forward(Queue queue, View q, View k, View v, int heads, View y, View lse,
                       View probabilities);

void attention_backward(Queue queue, View dy, View q, View k, View v, View y, View lse,
                        View probabilities, int heads, View dq, View dk, View dv);

}  // namespace lockstep::cuda
