#pragma once

#include <cublasLt.h>

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/cuda/check.h"
#include "kernels/kernels.h"

namespace lockstep::cuda {

/// One operand: a row-major matrix as a View has it, or its transpose.
struct Factor {
  View matrix;
  bool transposed = false;
};

/// D = A B + bias, or D += A B, by cuBLASLt, accumulated in f32 and rounded once.
///
/// The same bits for the same shapes and numbers wherever they lie: which of cuBLASLt's algorithms
/// is used depends on shapes, types and transpositions alone, is asked for once for each of them
/// and kept, and is one that adds in a fixed order (no split sums in place). An algorithm of full
/// speed wants rows that begin at multiples of 16 bytes; operands whose rows don't (the logits of
/// an odd vocabulary) are copied to scratch whose rows do, and back, which costs less than the
/// algorithms for any alignment would. Good from any number of threads.
class MatrixProducts {
 public:
  /// For the current device. `allow_tf32`: see make_cuda_kernels.
  explicit MatrixProducts(const Kernels& kernels, bool allow_tf32);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  /// D = A B, plus `bias` (if there is one) in each row.
  void multiply(Queue queue, Factor a, Factor b, View bias, View d) const;
  /// D += A B.
  void accumulate(Queue queue, Factor a, Factor b, View d) const;

 private:
  struct Call;
  /// m, n, k, transpositions, type, whether there is a bias, whether it accumulates.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, DType, bool, bool>;

  void run(Queue queue, Factor a, Factor b, View bias, View d, bool accumulates) const;
  cublasLtMatmulHeuristicResult_t algorithm(const Key& key, const Call& call) const;

  const Kernels& kernels_;  // for copies
  bool allow_tf32_;
  cublasLtHandle_t handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<Key, cublasLtMatmulHeuristicResult_t> algorithms_;
};

}  // namespace lockstep::cuda
