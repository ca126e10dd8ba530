#pragma once

#include <cublasLt.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/product_table.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

using Copy = decltype(Kernels::copy);

/// One operand: a row-major matrix, or its transpose.
struct Factor {
  View matrix;
  bool transposed = false;
};

/// Computes D = A B + bias or D += A B with cuBLASLt, accumulated in f32 and rounded once. If the
/// number of terms is large and leaves the last 16-byte word of a row incomplete, the sum of the
/// last few terms is rounded first, and then the sum of all.
///
/// For the same shapes and values, results are bitwise identical at any address, because the
/// algorithm depends only on shapes, types and transpositions, and adds in a fixed order (no
/// in-place split-K). cuBLASLt is queried for its algorithms once for each combination, a
/// ProductTable chooses one of them, and the answer is cached. Fast algorithms need rows that begin
/// at multiples of 16 bytes. Operands with unaligned rows are copied to aligned scratch memory, and
/// results are copied back. The logits of an odd vocabulary, the largest such operand, have padded
/// rows instead (Tensor::with_aligned_rows); their product is computed in two parts. Thread-safe.
class MatrixProducts {
 public:
  /// Creates products for the current device. For `allow_tf32` see make_cuda_kernels.
  MatrixProducts(Copy copy, bool allow_tf32, ProductTable& table = ProductTable::of_process());
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  /// Computes D = A B, plus `bias`, if given, in each row.
  void multiply(Queue queue, Factor a, Factor b, View bias, View d) const;
  /// Computes D += A B.
  void accumulate(Queue queue, Factor a, Factor b, View d) const;

 private:
  struct Call;
  /// The extents m, n and k, two transpositions, the dtype, whether there is a bias, and whether to
  /// accumulate.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, DType, bool, bool>;

  using Algorithm = cublasLtMatmulHeuristicResult_t;

  void run(Queue queue, Factor a, Factor b, View bias, View d, bool accumulates) const;
  /// Runs two smaller products instead if that is faster; otherwise does nothing and returns false.
  bool run_in_two(Queue queue, const Factor& a, const Factor& b, const View& bias, const View& d,
                  bool accumulates) const;
  /// Returns the product's algorithm; nothing if cuBLASLt has none.
  const std::optional<Algorithm>& algorithm(const Key& key, const Call& call) const;
  std::vector<Algorithm> proposals_for(const Call& call) const;
  std::string name_of_product(const Key& key) const;
  void launch(Queue queue, const Call& call, const Algorithm& chosen, bool accumulates) const;
  int fastest(const Key& key, const Call& call, const std::vector<Algorithm>& proposals) const;

  Copy copy_;
  ProductTable& table_;
  bool allow_tf32_;
  cublasLtHandle_t handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::optional<Algorithm>> algorithms_;
};

}  // namespace lockstep::cuda
