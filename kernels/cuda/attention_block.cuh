#pragma once

/// Attention to a part of the keys (ring attention), in plain CUDA and for all types: the tiles and
/// the online softmax of attention_f32_forward.cu and attention_f32_backward.cu, with other masks.
/// Elements are widened to f32 as they enter shared memory. Unlike attention_forward.cu, these
/// kernels do not use tensor cores.

#include "kernels/cuda/attention_f32_tile.cuh"
#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/narrow.cuh"

namespace lockstep::cuda {

/// Some rows of one head in every sequence of a (b, s, h) view, or of a view like k, each of whose
/// heads serves `share` query heads.
template <class T>
struct RowsOf {
  T* data;               ///< first row of the first sequence
  std::int64_t between;  ///< elements from one sequence to the next
  int stride;            ///< elements from one row to the next
  int count;             ///< rows per sequence
  int share;

  RowsOf(const View& view, std::int64_t first, std::int64_t count_, int share_ = 1)
      : data(static_cast<T*>(view.data) + first * view.row_stride),
        between(view.shape[1] * view.row_stride),
        stride(static_cast<int>(view.row_stride)),
        count(static_cast<int>(count_)),
        share(share_) {}

  __device__ Matrix<T> matrix(const Problem& n, int index) const {
    return {data + index / n.heads * between + index % n.heads / share * n.d, stride};
  }
};

/// Keys [begin, end), counted from the block's first key.
struct Range {
  int begin, end;
  __device__ bool contains(int key) const { return key >= begin && key < end; }
};

/// Selects the keys of the block that its queries see.
struct Mask {
  const std::int32_t* visible;  ///< the ranges of rows of k, (b, rows, 2), or null
  int rows;                     ///< rows of q per sequence
  int first_query, queries, first_key, keys;
  bool causal;

  Mask(const View& visible_, const AttentionBlock& block, const View& q)
      : visible(visible_.elements() == 0 ? nullptr : visible_.i32()),
        rows(static_cast<int>(q.shape[1])),
        first_query(static_cast<int>(block.first_query)),
        queries(static_cast<int>(block.queries)),
        first_key(static_cast<int>(block.first_key)),
        keys(static_cast<int>(block.keys)),
        causal(block.causal) {}

  /// Returns the keys that the block's query `query` sees in the sequence of a matrix; nothing
  /// beyond the last query.
  __device__ Range seen(const Problem& n, int matrix, int query) const {
    if (query >= queries) return {0, 0};
    if (visible == nullptr) return {0, causal ? query + 1 : keys};
    const std::int64_t row = std::int64_t{matrix / n.heads} * rows + first_query + query;
    return {max(visible[2 * row], first_key) - first_key,
            min(visible[2 * row + 1], first_key + keys) - first_key};
  }

  /// Returns the keys between the first and the last one that any query of a tile sees, to all
  /// threads of the block. The 16 threads that share a row of the tile look at all of its rows.
  __device__ Range seen_by_tile(const Problem& n, int matrix, int first, int tile) const {
    if (visible == nullptr) return {0, causal ? min(keys, first + tile) : keys};
    Range all{keys, 0};
    for (int i = thread_x(); i < tile; i += side) {
      const Range one = seen(n, matrix, first + i);
      if (one.begin >= one.end) continue;
      all.begin = min(all.begin, one.begin);
      all.end = max(all.end, one.end);
    }
    for (int other = side / 2; other > 0; other /= 2) {
      all.begin = min(all.begin, __shfl_xor_sync(0xffffffffU, all.begin, other));
      all.end = max(all.end, __shfl_xor_sync(0xffffffffU, all.end, other));
    }
    return all;
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
