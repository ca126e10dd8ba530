#pragma once

/// Reductions over the threads of a block in a fixed order: a tree over the lanes of each warp,
/// then warp by warp. CUB has the same reduction, but its headers take longer to compile than the
/// kernels that use it.

#include <cuda_runtime.h>

#include <cstring>

namespace lockstep::cuda {

struct Sum {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const {
    return a + b;
  }
};

/// Returns the value of the lane whose number is higher by `distance`, for a T made of 32-bit
/// words. The top lanes, for which there is no such lane, get their own value.
template <class T>
__device__ __forceinline__ T from_lane_above(T value, unsigned distance) {
  static_assert(sizeof(T) % sizeof(unsigned) == 0);
  unsigned words[sizeof(T) / sizeof(unsigned)];
  memcpy(words, &value, sizeof value);
#pragma unroll
  for (unsigned& word : words) word = __shfl_down_sync(0xffffffffU, word, distance);
  memcpy(&value, words, sizeof value);
  return value;
}

/// Reduces over a one-dimensional block of whole warps, with at most `most_threads` threads. All
/// threads must call it. Each Storage supports one reduction at a time.
template <class T, int most_threads>
class BlockReduction {
  static_assert(most_threads % 32 == 0, "whole warps");

 public:
  /// Shared memory for one partial result per warp. Raw bytes, because __shared__ variables cannot
  /// have constructors.
  struct Storage {
    alignas(T) unsigned char parts[most_threads / 32 * sizeof(T)];
  };

  explicit __device__ BlockReduction(Storage& storage)
      : parts_(reinterpret_cast<T*>(storage.parts)) {}

  /// Combines all threads' values and returns the result on thread 0; the other threads' return
  /// value is undefined. The caller must synchronize the block before reusing the storage.
  template <class Combine>
  __device__ T on_first_thread(T value, Combine combine) const {
    // Lane 0 combines with lane 1, then with 2 (which has combined with 3), with 4 (which has
    // combined with 5 to 7), ...
#pragma unroll
    for (unsigned distance = 1; distance < 32; distance *= 2)
      value = combine(value, from_lane_above(value, distance));
    if (threadIdx.x % 32 == 0) parts_[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
      for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) value = combine(value, parts_[warp]);
    return value;
  }

  /// Like on_first_thread, but returns the result on all threads, and may be called again
  /// immediately.
  template <class Combine>
  __device__ T operator()(T value, Combine combine) const {
    const T first = on_first_thread(value, combine);
    if (threadIdx.x == 0) parts_[0] = first;
    __syncthreads();
    const T result = parts_[0];
    __syncthreads();
    return result;
  }

 private:
  T* parts_;
};

}  // namespace lockstep::cuda
