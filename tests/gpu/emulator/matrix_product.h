#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <vector>

struct cublasLtMatmulDescOpaque {
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int bias_type = -1;   ///< -1: same as D's
  void* aux = nullptr;  ///< GELU's argument, in D's type
  std::int64_t aux_ld = 0;
};
struct cublasLtMatrixLayoutOpaque {
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t ld = 0;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  std::int32_t batches = 1;
  std::int64_t batch_stride = 0;
};

namespace emulator {

/// The arguments of one cublasLtMatmul call, D = epilogue(alpha op(A) op(B) + beta C).
struct MatrixProduct {
  cublasLtMatmulDescOpaque product;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  cublasLtMatrixLayoutOpaque a_layout, b_layout, c_layout, d_layout;

  /// Whether extents, types and leading dimensions are consistent.
  bool fits() const;
  /// Computes in f32 and rounds once, to D's type. Divides the inner extent into `parts` parts,
  /// whose products it adds one after another.
  void run(int parts) const;

 private:
  void run(std::int64_t batch, int parts) const;
  void store_sums(const std::vector<float>& x, std::int64_t count, std::int64_t k,
                  std::int64_t stride, std::int64_t k_stride, int type) const;
};

}  // namespace emulator
