#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <new>

#include "core/base/error.h"

namespace lockstep::cuda {

/// Throws RunError, which names the call, the GPU and what CUDA said, unless `status` is success;
/// std::bad_alloc where there is no more memory. The error is not met again by the next call (but
/// those that a GPU doesn't recover from are, whatever one does).
inline void expect_success(cudaError_t status, const char* call, int gpu) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  if (status == cudaErrorMemoryAllocation) throw std::bad_alloc{};
  throw RunError{fmt::format("{} on GPU {}: {} ({})", call, gpu, cudaGetErrorName(status),
                             cudaGetErrorString(status))};
}

}  // namespace lockstep::cuda
