#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "kernels/cuda/check.h"

namespace lockstep::cuda {

/// Throws GpuError, which names the call, the GPU and what CUDA said, unless `status` is success.
/// The error is not met again by the next call (but those that a GPU doesn't recover from are,
/// whatever one does). Kernels, which do not know their GPU's number, have check() beside them.
inline void expect_success(cudaError_t status, const char* call, int gpu) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw GpuError{fmt::format("{} on GPU {}: {} ({})", call, gpu, cudaGetErrorName(status),
                             cudaGetErrorString(status))};
}

}  // namespace lockstep::cuda
