#pragma once

/// The least of the CUDA runtime that kernels ask for, done at once: a place-holder for the
/// emulated runtime with streams that run late.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9
};
struct CUstream_st;
using cudaStream_t = CUstream_st*;

inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    default:
      return "cudaErrorInvalidConfiguration";
  }
}
inline const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}

enum cudaMemcpyKind { cudaMemcpyDefault = 4 };

namespace emulator {
/// Puts an operation on a stream.
inline void enqueue(cudaStream_t, std::function<void()> operation) {
  operation();
}
}  // namespace emulator

inline cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t) {
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
template <class T>
cudaError_t cudaMallocAsync(T** data, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(data), bytes, stream);
}
inline cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  emulator::enqueue(stream, [data] { std::free(data); });
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  emulator::enqueue(stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  emulator::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
