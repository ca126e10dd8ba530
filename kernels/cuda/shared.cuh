#pragma once

#include <cuda_runtime.h>

namespace lockstep::cuda {

/// Returns the dynamic shared memory, 1024-byte aligned. All declarations of this memory in a
/// translation unit must have the same type, so it is declared only here, and cast to the type that
/// a kernel needs.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

}  // namespace lockstep::cuda
