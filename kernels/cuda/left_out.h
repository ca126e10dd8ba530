#pragma once

/// For a build that omits kernel files (cmake/LeftOut.cmake generates their replacements).

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/device_kernels.h"

namespace lockstep::cuda {

[[noreturn]] inline void throw_left_out(const char* name, const char* file) {
  throw std::runtime_error(fmt::format(
      "this build left out {}: it was made without {} (LOCKSTEP_LEAVE_OUT_KERNELS)", name, file));
}

/// Sets a kernel that throws.
template <class... Arguments>
void leave_out(Kernel<void(Arguments...)>& kernel, const char* name, const char* file) {
  kernel = [name, file](Arguments...) { throw_left_out(name, file); };
}

}  // namespace lockstep::cuda
