#include "tests/kernels/support.h"

namespace lockstep::testing {

// The same tests run over the GPU's kernels: tests/gpu/on_device.cpp.
const Kernels& kernels() {
  return cpu_kernels();
}

bool on_cpu() {
  return true;
}

}  // namespace lockstep::testing
