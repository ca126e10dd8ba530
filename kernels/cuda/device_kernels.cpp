#include "kernels/cuda/device_kernels.h"

#include "kernels/check.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/left_out.h"

namespace lockstep {

Kernels make_cuda_kernels(bool allow_tf32) {
  Kernels kernels;
  cuda::set_layernorm_forward(kernels);
  cuda::set_layernorm_backward(kernels);
  cuda::set_gelu(kernels);
  cuda::set_attention(kernels);
  cuda::set_embedding(kernels);
  cuda::set_cross_entropy(kernels);
  cuda::set_experts(kernels);
  cuda::set_elementwise(kernels);
  cuda::set_optimizer(kernels);
  cuda::set_reductions(kernels);
  cuda::set_linear(kernels, allow_tf32);
  // These files do not exist yet.
  cuda::leave_out(kernels.rmsnorm_forward, "rmsnorm_forward", "kernels/cuda/rmsnorm.cu");
  cuda::leave_out(kernels.rmsnorm_backward_input, "rmsnorm_backward_input",
                  "kernels/cuda/rmsnorm.cu");
  cuda::leave_out(kernels.rmsnorm_backward_weight, "rmsnorm_backward_weight",
                  "kernels/cuda/rmsnorm.cu");
  cuda::leave_out(kernels.swiglu_forward, "swiglu_forward", "kernels/cuda/swiglu.cu");
  cuda::leave_out(kernels.swiglu_backward, "swiglu_backward", "kernels/cuda/swiglu.cu");
  cuda::leave_out(kernels.rotary, "rotary", "kernels/cuda/rotary.cu");
  want_every_kernel("GPU", kernels);
  return kernels;
}

}  // namespace lockstep
