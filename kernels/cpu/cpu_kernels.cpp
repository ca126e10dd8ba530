#include "kernels/cpu/cpu_kernels.h"

#include <cblas.h>

#include "kernels/cpu/narrow.h"

namespace lockstep {

cpu::CpuKernels::CpuKernels() {
  openblas_set_num_threads(1);
}

// A local static: the first caller constructs it, and other threads wait for that.
const Kernels& cpu_kernels() {
  static const cpu::NarrowKernels kernels;
  return kernels;
}

}  // namespace lockstep
