#pragma once

#include <cublasLt.h>

#include <memory>

#include "kernels/cuda/matrix_products.h"

namespace lockstep::variants {

/// What a product does besides multiplying: cuBLASLt's epilogue, and the arrays that it names.
struct Epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  View vector = {};  ///< the bias, or the gradient of a bias (overwritten); contiguous
  View aux = {};     ///< GELU's argument: written by GELU_AUX, read by DGELU
};

/// D = A B or D += A B with an epilogue, for whole rows. As in kernels/cuda/matrix_products.cpp,
/// cuBLASLt sees all matrices transposed, and its first proposal is used.
class FusedProduct {
 public:
  /// Throws GpuError if cuBLASLt has no algorithm.
  FusedProduct(cuda::Factor a, cuda::Factor b, View d, bool accumulates, const Epilogue& epilogue);
  ~FusedProduct();
  void run(Queue queue) const;

 private:
  struct Call;
  std::unique_ptr<Call> call_;
};

/// BGRADA sums the rows of dy, if the product's right factor is dy, and BGRADB, if its left is.
constexpr cublasLtEpilogue_t sums_of_right = CUBLASLT_EPILOGUE_BGRADA;
constexpr cublasLtEpilogue_t sums_of_left = CUBLASLT_EPILOGUE_BGRADB;

}  // namespace lockstep::variants
