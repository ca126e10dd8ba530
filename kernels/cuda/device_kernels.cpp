#include "kernels/cuda/device_kernels.h"

#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/matrix_products.h"

namespace lockstep {

cuda::DeviceKernels::DeviceKernels(bool allow_tf32)
    : products_(std::make_unique<MatrixProducts>(*this, allow_tf32)) {}

cuda::DeviceKernels::~DeviceKernels() = default;

void cuda::DeviceKernels::attention_forward(Queue queue, View q, View k, View v, int heads, View y,
                                            View lse, View probabilities) const {
  cuda::attention_forward(queue, q, k, v, heads, y, lse, probabilities);
}

void cuda::DeviceKernels::attention_backward(Queue queue, View dy, View q, View k, View v, View y,
                                             View lse, View probabilities, int heads, View dq,
                                             View dk, View dv) const {
  cuda::attention_backward(queue, dy, q, k, v, y, lse, probabilities, heads, dq, dk, dv);
}

std::unique_ptr<Kernels> make_cuda_kernels(bool allow_tf32) {
  return std::make_unique<cuda::DeviceKernels>(allow_tf32);
}

}  // namespace lockstep
