#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "kernels/cuda/check.h"

namespace lockstep::cuda {

/// Throws GpuError, naming the call, the GPU and CUDA's error, unless `status` is cudaSuccess.
/// Clears the error, so that the next call does not report it again. (CUDA does not clear an error
/// from which the GPU cannot recover.) Kernel launches use check() in kernels/cuda/check.h, because
/// launch code does not know the GPU's number.
inline void expect_success(cudaError_t status, const char* call, int gpu) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw GpuError{fmt::format("{} on GPU {}: {} ({})", call, gpu, cudaGetErrorName(status),
                             cudaGetErrorString(status))};
}

}  // namespace lockstep::cuda
