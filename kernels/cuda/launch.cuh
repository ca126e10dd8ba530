#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/cuda/check.h"

namespace lockstep::cuda {

/// The numbers of a launch's blocks. They are 64-bit, because CUDA counts blocks in 32 bits: a
/// number that does not fit must be rejected, not truncated.
struct Grid {
  std::int64_t x = 1;
  std::int64_t y = 1;

  bool empty() const { return x == 0 || y == 0; }
  /// Whether CUDA accepts this grid (CUDA C++ Programming Guide, "Technical Specifications per
  /// Compute Capability").
  bool fits() const { return x <= 2147483647 && y <= 65535; }
};

/// A kernel's launch configuration.
struct Launch {
  const char* name;  ///< name used in error messages
  Queue queue;
  Grid blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;  ///< dynamic shared memory of each block
};

/// Enqueues a kernel; does nothing if there are no blocks. Throws GpuError with the kernel's name,
/// also if there are more blocks than CUDA can count.
template <class... Parameters, class... Arguments>
void launch(const Launch& how, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (how.blocks.empty()) return;
  if (!how.blocks.fits())
    throw GpuError(std::string("launching ") + how.name + ": " + std::to_string(how.blocks.x) +
                   " x " + std::to_string(how.blocks.y) + " blocks are more than CUDA allows");
  const auto want = [&how](cudaError_t status) {
    if (status != cudaSuccess) check(status, (std::string("launching ") + how.name).c_str());
  };
  // To use more than 48 KiB of shared memory, each kernel must opt in.
  constexpr std::size_t without_opt_in = 48 * 1024;
  if (how.shared_bytes > without_opt_in)
    want(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(how.shared_bytes)));
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(how.blocks.x), static_cast<unsigned>(how.blocks.y));
  config.blockDim = how.threads;
  config.dynamicSmemBytes = how.shared_bytes;
  config.stream = stream_of(how.queue);
  want(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

/// Returns the number of groups of `size` that cover `count` elements.
constexpr std::int64_t groups_of(std::int64_t size, std::int64_t count) {
  return (count + size - 1) / size;
}

}  // namespace lockstep::cuda
