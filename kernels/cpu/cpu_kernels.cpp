#include "kernels/cpu/cpu_kernels.h"

#include <cblas.h>

#include "kernels/check.h"

namespace lockstep {
namespace {

Kernels make_cpu_kernels() {
  openblas_set_num_threads(1);  // for the whole process: the ranks provide the parallelism
  Kernels f32;
  cpu::set_linear(f32);
  cpu::set_layernorm(f32);
  cpu::set_attention(f32);
  cpu::set_embedding(f32);
  cpu::set_cross_entropy(f32);
  cpu::set_elementwise(f32);
  cpu::set_optimizer(f32);
  want_every_kernel("CPU", f32);
  return cpu::with_narrow_types(f32);
}

}  // namespace

// A function-local static is initialized once, even if several threads call this at the same time.
const Kernels& cpu_kernels() {
  static const Kernels kernels = make_cpu_kernels();
  return kernels;
}

}  // namespace lockstep
