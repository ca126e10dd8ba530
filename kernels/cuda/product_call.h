#pragma once

#include <vector>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/matrix_product.h"

namespace lockstep::cuda {

/// A product as cuBLASLt computes it. cuBLASLt is column-major, so it sees every matrix transposed,
/// and D = A B becomes Dᵀ = Bᵀ Aᵀ. Rows must be aligned (aligned_rows.h).
class ProductCall {
 public:
  ProductCall(cublasLtHandle_t library, const MatrixProduct& product, bool allow_tf32);

  /// Returns cuBLASLt's proposals, the one that it expects to be the fastest first.
  std::vector<CublasAlgorithm> proposals() const;
  void run(Queue queue, const CublasAlgorithm& algorithm) const;

 private:
  cublasLtHandle_t library_;
  MatrixProduct product_;
  CublasOperation operation_;
};

}  // namespace lockstep::cuda
