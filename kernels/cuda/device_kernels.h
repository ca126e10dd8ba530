#pragma once

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// Each function sets one family of `kernels`; the file of the same name defines it. Views are in
/// GPU memory and need only their element type's alignment.
void set_layernorm_forward(Kernels& kernels);
void set_layernorm_backward(Kernels& kernels);
void set_gelu(Kernels& kernels);
void set_swiglu(Kernels& kernels);
void set_rotary(Kernels& kernels);
void set_attention(Kernels& kernels);
void set_embedding(Kernels& kernels);
void set_cross_entropy(Kernels& kernels);
void set_experts(Kernels& kernels);
void set_elementwise(Kernels& kernels);
void set_optimizer(Kernels& kernels);
void set_reductions(Kernels& kernels);
/// Uses `kernels.copy`, so call set_elementwise first. For `allow_tf32` see make_cuda_kernels.
void set_linear(Kernels& kernels, bool allow_tf32);

}  // namespace lockstep::cuda
