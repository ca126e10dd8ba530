#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>

#include "kernels/cuda/check.h"

namespace lockstep::cuda {

/// A kernel's launch configuration.
struct Launch {
  const char* name;  ///< name used in error messages
  Queue queue;
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;  ///< dynamic shared memory of each block
};

/// Enqueues a kernel; does nothing if there are no blocks. Throws GpuError with the kernel's name.
template <class... Parameters, class... Arguments>
void launch(const Launch& how, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (how.blocks.x * how.blocks.y * how.blocks.z == 0) return;
  const auto want = [&how](cudaError_t status) {
    if (status != cudaSuccess) check(status, (std::string("launching ") + how.name).c_str());
  };
  // To use more than 48 KiB of shared memory, each kernel must opt in.
  constexpr std::size_t without_opt_in = 48 * 1024;
  if (how.shared_bytes > without_opt_in)
    want(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(how.shared_bytes)));
  cudaLaunchConfig_t config{};
  config.gridDim = how.blocks;
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
