#include "kernels/cuda/device_kernels.h"

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/matrix_products.h"

namespace lockstep {

cuda::DeviceKernels::DeviceKernels(bool allow_tf32)
    : products_(std::make_unique<MatrixProducts>(*this, allow_tf32)) {}

cuda::DeviceKernels::~DeviceKernels() = default;

std::unique_ptr<Kernels> make_cuda_kernels(bool allow_tf32) {
  return std::make_unique<cuda::DeviceKernels>(allow_tf32);
}

}  // namespace lockstep
