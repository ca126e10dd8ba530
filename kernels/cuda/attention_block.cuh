#pragma once

/// Attention to a part of the keys (ring attention), in plain CUDA and for all types: the tiles and
/// the online softmax of attention_f32_forward.cu and attention_f32_backward.cu, without a mask.
/// Elements are widened to f32 as they enter shared memory. Unlike attention_forward.cu, these
/// kernels do not use tensor cores.

#include "kernels/cuda/attention_f32_tile.cuh"
#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/narrow.cuh"

namespace lockstep::cuda {

/// Some rows of one head in every sequence of a (b, s, h) view.
template <class T>
struct RowsOf {
  T* data;               ///< first row of the first sequence
  std::int64_t between;  ///< elements from one sequence to the next
  int stride;            ///< elements from one row to the next
  int count;             ///< rows per sequence

  RowsOf(const View& view, std::int64_t first, std::int64_t count_)
      : data(static_cast<T*>(view.data) + first * view.row_stride),
        between(view.shape[1] * view.row_stride),
        stride(static_cast<int>(view.row_stride)),
        count(static_cast<int>(count_)) {}

  __device__ Matrix<T> matrix(const Problem& n, int index) const {
    return {data + index / n.heads * between + index % n.heads * n.d, stride};
  }
};

/// Loads rows [first, first + f32_tile), widened; pads with zeros beyond the rows and beyond d.
template <int D, class T>
__device__ void load_rows(float* tile, const RowsOf<const T>& rows, int first, int index,
                          const Problem& n) {
  const Matrix<const T> matrix = rows.matrix(n, index);
  for (int i = static_cast<int>(threadIdx.x); i < f32_tile<D> * D; i += f32_threads) {
    const int row = i / D, column = i % D;
    const bool inside = first + row < rows.count && column < n.d;
    tile[row * f32_pitch<D> + column] = inside ? widen(matrix.row(first + row)[column]) : 0.0F;
  }
}

/// Calls body.template operator()<T, D>() for the type and the padded columns of a head.
template <class Body>
void for_type_and_head(DType dtype, int d, const Body& body) {
  if (dtype == DType::f32)
    for_head(d, [&]<int D>() { body.template operator()<float, D>(); });
  else
    for_narrow_head(dtype, d, body);
}

}  // namespace lockstep::cuda
