#pragma once

/// f32 tiles in shared memory, and products of such tiles: the building blocks of f32 attention.
///
/// A block is 16 x 16 threads, and a result of (16 I, 16 J) is distributed over them: thread (y, x)
/// holds rows y + 16 i and columns x + 16 j in c[i][j]. For each step along the inner dimension a
/// thread reads I + J floats from shared memory for I J multiply-adds.

#include "kernels/cuda/attention_problem.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {

inline constexpr int side = 16;
inline constexpr int f32_threads = side * side;

/// The number of rows in a tile of queries or keys. Four such tiles and one tile of scores take at
/// most 81 KB.
template <int D>
inline constexpr int f32_tile = D <= 64 ? 64 : 32;

/// Distance between rows of a tile with `columns` columns. One extra element avoids bank conflicts
/// when a warp reads a column.
template <int columns>
inline constexpr int f32_pitch = columns + 1;

__device__ inline int thread_x() {
  return static_cast<int>(threadIdx.x) % side;
}
__device__ inline int thread_y() {
  return static_cast<int>(threadIdx.x) / side;
}

/// Element (i, j) is data[i * row + j * column].
struct SharedMatrix {
  const float* data;
  int row, column;
  __device__ SharedMatrix transposed() const { return {data, column, row}; }
};

template <int columns>
__device__ SharedMatrix tile_of(const float* data) {
  return {data, f32_pitch<columns>, 1};
}

/// Computes c (16 I, 16 J) += a (16 I, inner) b (inner, 16 J). Each element is summed in order of
/// the inner index whatever the tile, so a score is bitwise identical in all kernels.
template <int I, int J>
__device__ void multiply(float (&c)[I][J], SharedMatrix a, SharedMatrix b, int inner) {
#pragma unroll 4
  for (int k = 0; k < inner; ++k) {
    float left[I], right[J];
#pragma unroll
    for (int i = 0; i < I; ++i) left[i] = a.data[(thread_y() + side * i) * a.row + k * a.column];
#pragma unroll
    for (int j = 0; j < J; ++j) right[j] = b.data[k * b.row + (thread_x() + side * j) * b.column];
#pragma unroll
    for (int i = 0; i < I; ++i)
#pragma unroll
      for (int j = 0; j < J; ++j) c[i][j] = fmaf(left[i], right[j], c[i][j]);
  }
}

/// Loads rows [first, first + f32_tile) of a matrix; pads with zeros beyond s and d.
template <int D>
__device__ void load_tile(float* tile, Matrix<const float> matrix, int first, const Problem& n) {
  for (int i = static_cast<int>(threadIdx.x); i < f32_tile<D> * D; i += f32_threads) {
    const int row = i / D, column = i % D;
    const bool inside = first + row < n.s && column < n.d;
    tile[row * f32_pitch<D> + column] = inside ? matrix.row(first + row)[column] : 0.0F;
  }
}

/// Multiplies each row of a tile's result by its `factor`, and stores the result to rows [first,
/// ...) of a matrix.
template <int I, int J>
__device__ void store_rows(const float (&c)[I][J], const float (&factor)[I], Matrix<float> matrix,
                           int first, const Problem& n) {
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const int row = first + thread_y() + side * i, column = thread_x() + side * j;
      if (row < n.s && column < n.d) matrix.row(row)[column] = c[i][j] * factor[i];
    }
}

/// Stores a product's result to a tile of scores in shared memory, for all threads to read.
template <int I, int J>
__device__ void share(const float (&c)[I][J], float* tile) {
#pragma unroll
  for (int i = 0; i < I; ++i)
#pragma unroll
    for (int j = 0; j < J; ++j)
      tile[(thread_y() + side * i) * f32_pitch<side * J> + thread_x() + side * j] = c[i][j];
}

/// These functions reduce a value over the 16 threads with the same y, which share a row.
__device__ inline float row_max(float x) {
  for (int other = side / 2; other > 0; other /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, other));
  return x;
}
__device__ inline float row_sum(float x) {
  for (int other = side / 2; other > 0; other /= 2) x += __shfl_xor_sync(0xffffffffU, x, other);
  return x;
}

/// The layout of the backward pass's shared memory: one tile each of queries, dy, keys and values,
/// and one tile of P or dS.
template <int D>
struct Tiles {
  static constexpr int tile = f32_tile<D>, elements = tile * f32_pitch<D>;
  static constexpr std::size_t bytes = (4 * elements + tile * f32_pitch<tile>)*sizeof(float);
  float* const queries = dynamic_shared<float>();
  float* const dys = queries + elements;
  float* const keys = dys + elements;
  float* const values = keys + elements;
  float* const scores = values + elements;
};

/// Converts a score to a probability. All kernels share this function, so their results are bitwise
/// identical. (These files are compiled without contraction, because the compiler might fuse a
/// multiply and an add in one kernel and not in another; code that wants an FMA calls fmaf.)
__device__ inline float probability_f32(float score, float scale, float lse) {
  return element::exp(score * scale - lse);
}

}  // namespace lockstep::cuda
