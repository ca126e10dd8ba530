#pragma once

/// Reductions over the threads of a block, in one fixed order: a tree of lanes within each warp,
/// then warp by warp. CUB has the same reduction, but its headers take the compiler longer than the
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

/// The value that the lane `distance` above holds, for a T of 32-bit words. The uppermost lanes,
/// which have no such lane, receive their own.
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

/// One reduction at a time over a block of whole warps, `most_threads` at most (in x alone), all of
/// which call it.
template <class T, int most_threads>
class BlockReduction {
  static_assert(most_threads % 32 == 0, "whole warps");

 public:
  /// In shared memory: a partial result for each warp. Bytes, since shared memory has no
  /// constructors.
  struct Storage {
    alignas(T) unsigned char parts[most_threads / 32 * sizeof(T)];
  };

  explicit __device__ BlockReduction(Storage& storage)
      : parts_(reinterpret_cast<T*>(storage.parts)) {}

  /// Combines all threads' values, for thread 0 only; what the others get has no meaning. The block
  /// passes a barrier before the storage is used again.
  template <class Combine>
  __device__ T on_first_thread(T value, Combine combine) const {
    // Lane 0 combines with lane 1, then with 2 (which has 3), with 4 (which has 5 to 7), ...
#pragma unroll
    for (unsigned distance = 1; distance < 32; distance *= 2)
      value = combine(value, from_lane_above(value, distance));
    if (threadIdx.x % 32 == 0) parts_[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
      for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) value = combine(value, parts_[warp]);
    return value;
  }

  /// The same for all threads. Safe to call again at once.
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
