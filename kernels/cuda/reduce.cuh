#pragma once

/// Reductions over the threads of a block, in one fixed order: CUB's tree of lanes within each
/// warp, then warp by warp.

#include <cub/cub.cuh>

namespace lockstep::cuda {

struct Sum {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const {
    return a + b;
  }
};

/// One reduction at a time over `threads` threads, all of which call it.
template <class T, int threads>
class BlockReduction {
 public:
  /// In shared memory.
  struct Storage {
    typename cub::BlockReduce<T, threads>::TempStorage parts;
    T result;
  };

  explicit __device__ BlockReduction(Storage& storage) : storage_(storage) {}

  /// What all threads' values combine to, for all threads. Safe to call again at once.
  template <class Combine>
  __device__ T operator()(T value, Combine combine) const {
    const T first = cub::BlockReduce<T, threads>(storage_.parts).Reduce(value, combine);
    if (threadIdx.x == 0) storage_.result = first;
    __syncthreads();
    const T result = storage_.result;
    __syncthreads();
    return result;
  }

 private:
  Storage& storage_;
};

}  // namespace lockstep::cuda
