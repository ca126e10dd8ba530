#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// A failed call to CUDA or one of its libraries: the call, the error's name and its description.
class GpuError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws GpuError unless `status` is success. The error may stem from an earlier kernel, because
/// CUDA reports asynchronous errors at a later call.
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw GpuError(std::string(call) + ": " + cudaGetErrorName(status) + ": " +
                   cudaGetErrorString(status));
}

/// Evaluates a CUDA call once and throws GpuError if it failed.
#define LOCKSTEP_CUDA(call) ::lockstep::cuda::check((call), #call)

inline cudaStream_t stream_of(Queue queue) {
  return static_cast<cudaStream_t>(queue.handle);
}

/// Temporary device memory for `count` elements of one kernel call. The memory is allocated from
/// the stream-ordered pool and freed in queue order, so two queues never use it at the same time.
/// Null if count is 0.
template <class T>
class Scratch {
 public:
  Scratch(Queue queue, std::size_t count) : stream_(stream_of(queue)) {
    if (count > 0) LOCKSTEP_CUDA(cudaMallocAsync(&data_, count * sizeof(T), stream_));
  }
  ~Scratch() {
    // An error here stems from an earlier kernel; the next checked call reports it too.
    if (data_ != nullptr) static_cast<void>(cudaFreeAsync(data_, stream_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return static_cast<T*>(data_); }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

}  // namespace lockstep::cuda
