#pragma once

/// Causal attention on CUDA: what the class that implements Kernels calls. Contracts are those of
/// Kernels::attention_forward and attention_backward (kernels/kernels.h).
///
/// The algorithm is FlashAttention (Dao 2022, and its second version, Dao 2023). Where to read it:
///
///     attention_f32_forward.cu    the idea, in plain CUDA: tiles, online softmax
///     attention_f32_backward.cu   the same backward
///     attention_tile.cuh          tiles and products on tensor cores
///     attention_forward.cu        forward for bf16 and f16
///     attention_backward.cu       backward for bf16 and f16
///
/// Heads have at most 128 columns; more throws std::invalid_argument. Backward takes 4 bytes a row
/// and head from the stream-ordered pool and gives them back on the same queue.
///
/// Every sum is in one order that depends on s and the head's size alone, with no atomics: a result
/// is the same bits in every run, wherever the views lie, and however many sequences a batch has.

#include "kernels/kernels.h"

namespace lockstep::cuda {

void attention_forward(Queue queue, View q, View k, View v, int heads, View y, View lse,
                       View probabilities);

void attention_backward(Queue queue, View dy, View q, View k, View v, View y, View lse,
                        View probabilities, int heads, View dq, View dk, View dv);

}  // namespace lockstep::cuda
