#pragma once

#include <cuda_runtime.h>

namespace lockstep::cuda {

/// The shared memory whose size the launch gave, 1024-byte aligned. All kernels' declarations of it
/// are one array, so it has one type here, and each kernel says what it takes it for.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

}  // namespace lockstep::cuda
