#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace lockstep::cuda {

/// One operand: a row-major matrix, or its transpose.
struct Factor {
  View matrix;
  bool transposed = false;
};

/// The product D = A B + bias or, if it accumulates, D += A B + bias.
struct MatrixProduct {
  Factor a, b;
  View bias;  ///< added to each row; none if it has no data
  View d;
  bool accumulates = false;

  std::int64_t rows() const { return d.shape.rows(); }
  std::int64_t columns() const { return d.shape.last(); }
  /// The number of terms of each sum.
  std::int64_t inner() const {
    return a.transposed ? a.matrix.shape.rows() : a.matrix.shape.last();
  }
};

/// Returns `count` rows of a matrix, from row `first` on.
inline View some_rows(View matrix, std::int64_t first, std::int64_t count) {
  matrix.data = static_cast<std::byte*>(matrix.data) +
                static_cast<std::size_t>(first * matrix.row_stride) * size_of(matrix.dtype);
  matrix.shape = {count, matrix.shape.last()};
  return matrix;
}

}  // namespace lockstep::cuda
