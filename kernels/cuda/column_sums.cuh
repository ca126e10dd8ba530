#pragma once

/// Sums over rows, such as the gradients of biases and gains: out[c] += Σ_r value(r, c).
///
/// To fix the summation order and still have enough blocks to saturate a GPU's memory bandwidth,
/// each column is split into pieces of rows and summed in two steps. First, each block takes 32
/// chunks of columns, one per lane, and one piece of rows. Each of its warps takes every eighth row
/// of the piece. The block adds its warps' sums in order and writes them in f32. Second, the
/// pieces' sums are added in double, in order, and their total is added to `out`. The split depends
/// only on the shape. The values are read once. A piece has at least 64 rows, so the partial sums
/// add only a few percent to the traffic.

#include "kernels/arguments.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {

inline constexpr int column_lanes = 32;
inline constexpr int column_warps = 8;
inline constexpr int column_adders = 32;  ///< threads per column in the second step

/// Computes two sums that read the same memory: `values(row, first, count, columns, a, b)` adds the
/// contributions of row `row`, columns [first, first + count), to a and b.
template <int size, class Values>
__global__ void __launch_bounds__(column_lanes* column_warps)
    sum_pieces(Values values, std::int64_t rows, std::int64_t columns, std::int64_t rows_per_piece,
               float* sums_a, float* sums_b) {
  __shared__ float shared[2][column_warps][column_lanes * size];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const std::int64_t tile = std::int64_t{blockIdx.x} * column_lanes * size;
  const std::int64_t first = tile + lane * size;
  const std::int64_t left = columns - first;
  const int count = left >= size ? size : (left > 0 ? static_cast<int>(left) : 0);
  const std::int64_t begin = blockIdx.y * rows_per_piece;
  const std::int64_t end = begin + rows_per_piece < rows ? begin + rows_per_piece : rows;

  float a[size] = {}, b[size] = {};
#pragma unroll 4
  for (std::int64_t row = begin + warp; row < end; row += column_warps)
    values(row, first, count, columns, a, b);
  for (int i = 0; i < size; ++i) {
    shared[0][warp][i * column_lanes + lane] = a[i];
    shared[1][warp][i * column_lanes + lane] = b[i];
  }
  __syncthreads();
  // From here on, each column belongs to one thread.
  for (int column = warp * column_lanes + lane; column < column_lanes * size;
       column += column_warps * column_lanes) {
    if (tile + column >= columns) break;
    const int at = column % size * column_lanes + column / size;
    float sum_a = 0.0F, sum_b = 0.0F;
    for (int w = 0; w < column_warps; ++w) {
      sum_a += shared[0][w][at];
      sum_b += shared[1][w][at];
    }
    const std::int64_t to = blockIdx.y * columns + tile + column;
    sums_a[to] = sum_a;
    if (sums_b != nullptr) sums_b[to] = sum_b;
  }
}

/// Adds the pieces' sums to the output: out[c] += Σ_p sums[p][c].
template <class T>
__global__ void __launch_bounds__(column_lanes* column_adders)
    add_pieces(const float* sums, std::int64_t pieces, std::int64_t columns, T* out) {
  __shared__ double shared[column_adders][column_lanes];
  const std::int64_t column = std::int64_t{blockIdx.x} * column_lanes + threadIdx.x;
  double sum = 0.0;
  if (column < columns)
    for (std::int64_t p = threadIdx.y; p < pieces; p += column_adders)
      sum += sums[p * columns + column];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < column_adders; ++i) sum += shared[i][threadIdx.x];
  out[column] = rounded<T>(static_cast<float>(widen(out[column]) + sum));
}

/// Returns the number of pieces to split the rows into. Each piece has at least 64 rows, and there
/// are no more pieces than are needed to fill any GPU.
inline std::int64_t row_pieces(std::int64_t rows, std::int64_t column_tiles) {
  const std::int64_t most = groups_of(column_tiles, 2048);
  const std::int64_t wanted = groups_of(64, rows);
  return wanted < most ? wanted : most;
}

/// Adds the two column sums to a[c] and b[c]; b may be null.
template <class T, class Values>
void add_column_sums(const char* name, Queue queue, const Values& values, arguments::Matrix n, T* a,
                     T* b) {
  if (n.rows == 0 || n.columns == 0) return;
  constexpr int size = per_vector<T>;
  const std::int64_t tiles = groups_of(column_lanes * size, n.columns);
  const std::int64_t rows_per_piece = groups_of(row_pieces(n.rows, tiles), n.rows);
  const std::int64_t pieces = groups_of(rows_per_piece, n.rows);
  const auto one = static_cast<std::size_t>(pieces * n.columns);
  const Scratch<float> sums(queue, b == nullptr ? one : 2 * one);
  float* const sums_b = b == nullptr ? nullptr : sums.data() + one;
  launch({name, queue, Grid{tiles, pieces}, dim3(column_lanes, column_warps)},
         sum_pieces<size, Values>, values, n.rows, n.columns, rows_per_piece, sums.data(), sums_b);
  const Grid blocks{groups_of(column_lanes, n.columns)};
  launch({name, queue, blocks, dim3(column_lanes, column_adders)}, add_pieces<T>, sums.data(),
         pieces, n.columns, a);
  if (b != nullptr)
    launch({name, queue, blocks, dim3(column_lanes, column_adders)}, add_pieces<T>, sums_b, pieces,
           n.columns, b);
}

}  // namespace lockstep::cuda
