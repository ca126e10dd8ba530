#pragma once

#include "kernels/kernels.h"

namespace lockstep::cpu {

/// Each function sets one family of `kernels`; the .cpp file of the same name defines it. These
/// kernels take f32 only (attention, copy and convert take every floating-point type) and use one
/// CPU core: they run synchronously on the calling thread, and any number of rank threads may call
/// them concurrently.
void set_linear(Kernels& kernels);
void set_layernorm(Kernels& kernels);
void set_rmsnorm(Kernels& kernels);
void set_rotary(Kernels& kernels);
void set_attention(Kernels& kernels);
void set_attention_block(Kernels& kernels);
void set_embedding(Kernels& kernels);
void set_cross_entropy(Kernels& kernels);
void set_experts(Kernels& kernels);
void set_elementwise(Kernels& kernels);
void set_optimizer(Kernels& kernels);

/// Copies elements from a view to another of the same shape, and converts them if the types differ.
/// Both may be strided.
void convert(Queue queue, In from, Out to);

/// Returns kernels that also take bf16 and f16 (narrow.cpp). They widen such arguments to f32
/// exactly, call the f32 kernel, and round each output element once.
Kernels with_narrow_types(const Kernels& f32);

/// Returns kernels whose linear layers multiply bf16 matrices without widening them, if the
/// processor supports this (linear_bf16.cpp). For all other arguments, they call the kernels of
/// `widening`.
Kernels with_bf16_products(const Kernels& widening);

}  // namespace lockstep::cpu
