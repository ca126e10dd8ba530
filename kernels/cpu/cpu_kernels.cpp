#include "kernels/cpu/cpu_kernels.h"

#include "kernels/check.h"
#include "kernels/cpu/gemm.h"

namespace lockstep {
namespace {

Kernels make_cpu_kernels() {
  Kernels f32;
  cpu::set_linear(f32);
  cpu::set_layernorm(f32);
  cpu::set_rmsnorm(f32);
  cpu::set_rotary(f32);
  cpu::set_attention(f32);
  cpu::set_attention_block(f32);
  cpu::set_embedding(f32);
  cpu::set_cross_entropy(f32);
  cpu::set_experts(f32);
  cpu::set_elementwise(f32);
  cpu::set_optimizer(f32);
  want_every_kernel("CPU", f32);
  return cpu::with_bf16_products(cpu::with_narrow_types(f32));
}

}  // namespace

// A function-local static is initialized once, even if several threads call this at the same time.
const Kernels& cpu_kernels() {
  static const Kernels kernels = make_cpu_kernels();
  return kernels;
}

std::string cpu_kernels_library() {
  return cpu::gemm_library();
}

}  // namespace lockstep
