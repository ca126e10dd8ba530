#include "kernels/cpu/cpu_kernels.h"

#include <cblas.h>

#include "kernels/cpu/narrow.h"

namespace lockstep {

cpu::CpuKernels::CpuKernels() {
  openblas_set_num_threads(1);
}

// A function-local static is initialized once, even if several threads call this at the same time.
const Kernels& cpu_kernels() {
  static const cpu::NarrowKernels kernels;
  return kernels;
}

}  // namespace lockstep
