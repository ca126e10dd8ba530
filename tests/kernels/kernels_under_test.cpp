#include "tests/kernels/support.h"

namespace lockstep::testing {

// tests/gpu/on_device.cpp runs the same tests on the GPU's kernels.
const Kernels& kernels() {
  return cpu_kernels();
}

bool on_cpu() {
  return true;
}

}  // namespace lockstep::testing
