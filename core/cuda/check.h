#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "kernels/cuda/check.h"

namespace lockstep::cuda {

/// Unless `status` is success, throws GpuError with the call, the GPU and CUDA's error. Clears the
/// error, so that the next call does not report it again (unless the GPU cannot recover from it).
/// Kernels, which do not know their GPU's number, use a separate check().
inline void expect_success(cudaError_t status, const char* call, int gpu) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw GpuError{fmt::format("{} on GPU {}: {} ({})", call, gpu, cudaGetErrorName(status),
                             cudaGetErrorString(status))};
}

}  // namespace lockstep::cuda
