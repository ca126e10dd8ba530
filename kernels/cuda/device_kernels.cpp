#include "kernels/cuda/device_kernels.h"

#include "kernels/check.h"
#include "kernels/cuda/cuda_kernels.h"

namespace lockstep {

Kernels make_cuda_kernels(bool allow_tf32) {
  Kernels kernels;
  cuda::set_layernorm_forward(kernels);
  cuda::set_layernorm_backward(kernels);
  cuda::set_gelu(kernels);
  cuda::set_swiglu(kernels);
  cuda::set_rotary(kernels);
  cuda::set_attention(kernels);
  cuda::set_embedding(kernels);
  cuda::set_cross_entropy(kernels);
  cuda::set_experts(kernels);
  cuda::set_elementwise(kernels);
  cuda::set_optimizer(kernels);
  cuda::set_reductions(kernels);
  cuda::set_linear(kernels, allow_tf32);
  want_every_kernel("GPU", kernels);
  return kernels;
}

}  // namespace lockstep
