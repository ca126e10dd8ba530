#pragma once

#include <vector>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/matrix_product.h"

namespace lockstep::cuda {

/// Measures a product's proposals and returns the index of the fastest. Measures on a separate
/// stream and in separate memory: the rank's stream may be waiting for a message from a rank that
/// waits for this one.
int fastest_of(const std::vector<CublasAlgorithm>& proposals, cublasLtHandle_t library,
               const MatrixProduct& product, bool allow_tf32);

}  // namespace lockstep::cuda
