#pragma once

#include "kernels/cuda/aligned_rows.h"
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/matrix_product.h"
#include "kernels/cuda/product_algorithms.h"
#include "kernels/cuda/product_table.h"

namespace lockstep::cuda {

/// Computes D = A B + bias or D += A B with cuBLASLt, accumulated in f32 and rounded once. If the
/// number of terms is large and leaves the last 16-byte word of a row incomplete, the sum of the
/// last few terms is rounded first, and then the sum of all.
///
/// For the same shapes and values, results are bitwise identical at any address, because the
/// algorithm depends only on shapes, types and transpositions, and adds in a fixed order (no
/// in-place split-K). Fast algorithms need rows that begin at multiples of 16 bytes. Operands with
/// unaligned rows are copied to aligned scratch memory, and results are copied back. The logits of
/// an odd vocabulary, the largest such operand, have padded rows instead
/// (Tensor::with_aligned_rows); their product is computed in two parts (split_product.h).
/// Thread-safe.
class MatrixProducts {
 public:
  /// Creates products for the current device. For `allow_tf32` see make_cuda_kernels.
  MatrixProducts(Copy copy, bool allow_tf32, ProductTable& table = ProductTable::of_process());

  /// Computes D = A B, plus `bias`, if given, in each row.
  void multiply(Queue queue, Factor a, Factor b, View bias, View d) const;
  /// Computes D += A B.
  void accumulate(Queue queue, Factor a, Factor b, View d) const;

 private:
  void run(Queue queue, const MatrixProduct& product) const;

  Copy copy_;
  bool allow_tf32_;
  CublasLibrary library_;
  mutable ProductAlgorithms algorithms_;
};

}  // namespace lockstep::cuda
