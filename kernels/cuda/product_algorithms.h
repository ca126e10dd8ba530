#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/matrix_product.h"
#include "kernels/cuda/product_call.h"
#include "kernels/cuda/product_table.h"

namespace lockstep::cuda {

/// Chooses an algorithm for each kind of product: queries cuBLASLt for its proposals once, lets a
/// ProductTable choose one of them, and caches the answer. The choice depends only on shapes, types
/// and transpositions, so all ranks add in the same order. Thread-safe.
class ProductAlgorithms {
 public:
  ProductAlgorithms(cublasLtHandle_t library, bool allow_tf32, ProductTable& table)
      : library_(library), allow_tf32_(allow_tf32), table_(table) {}

  /// Returns the algorithm for a product, whose call is `call`; nothing if cuBLASLt has none.
  const std::optional<CublasAlgorithm>& find(const MatrixProduct& product, const ProductCall& call);

 private:
  /// The extents m, n and k, two transpositions, the dtype, whether there is a bias, and whether to
  /// accumulate.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, DType, bool, bool>;

  cublasLtHandle_t library_;
  bool allow_tf32_;
  ProductTable& table_;
  std::mutex mutex_;
  std::map<Key, std::optional<CublasAlgorithm>> found_;
};

}  // namespace lockstep::cuda
