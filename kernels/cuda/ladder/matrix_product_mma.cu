/// Step 4 of the ladder in matrix_product.cu: y = x W + bias on tensor cores, for bf16 and f16. One
/// instruction mma.m16n8k16 makes a warp multiply 16 x 16 by 16 x 8 elements: 2,048 multiply-adds,
/// 64 per lane. The sums, still f32, are spread over the lanes' registers (ptx.cuh). A block of 8
/// warps computes 128 x 128 elements of y, and each warp 64 x 32 of them: for 16 terms, it loads 4
/// pieces of x and 2 of W with ldmatrix and multiplies 16 times. Each row in shared memory has 16
/// bytes of padding: its length is then an odd multiple of 16 bytes, so the 8 rows that ldmatrix
/// reads together are in different banks. Step 5 also loads the next tiles while it multiplies.

#include "kernels/cuda/ladder/matrix_product_mma.h"

#include <stdexcept>

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {
namespace {

constexpr int side = 128, depth = 32, padding = 8, threads = 256;

template <class T>
struct Matrix {
  T* data;
  std::int64_t stride;
  int rows, columns;

  explicit Matrix(const View& view)
      : data(data_of<T>(view)),
        stride(view.row_stride),
        rows(static_cast<int>(view.shape.rows())),
        columns(static_cast<int>(view.shape.last())) {}
};

/// Copies rows x columns elements to shared memory, with zeros beyond the matrix's edges.
template <int rows, int columns, class T>
__device__ void load_tile(T* tile, const Matrix<const T>& from, int first_row, int first_column) {
  for (int i = 8 * static_cast<int>(threadIdx.x); i < rows * columns; i += 8 * threads) {
    const int row = first_row + i / columns, column = first_column + i % columns;
    const int left = row < from.rows ? from.columns - column : 0;
    const T* const begin = from.data + row * from.stride;
    const Source<T> source{begin, begin + from.columns};
    const auto chunk = source.template load<8>(column, left > 8 ? 8 : left > 0 ? left : 0, T{});
    store<true>(tile + i / columns * (columns + padding) + i % columns, chunk, 8);
  }
}

/// `out_in`: whether W is stored as (out, in), i.e. with the terms of a sum side by side.
template <bool out_in, class T>
__global__ void __launch_bounds__(threads)
    tensor_cores(Matrix<const T> x, Matrix<const T> w, const T* bias, Matrix<T> y) {
  constexpr int w_rows = out_in ? side : depth, w_columns = out_in ? depth : side;
  constexpr int x_pitch = depth + padding, w_pitch = w_columns + padding;
  __shared__ __align__(16) T xs[side * x_pitch], ws[w_rows * w_pitch];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = static_cast<int>(blockIdx.y) * side, warp_row = warp / 4 * 64;
  const int first_column = static_cast<int>(blockIdx.x) * side, warp_column = warp % 4 * 32;
  float sums[4][4][4] = {};  // strips of 16 rows, groups of 8 columns, and a lane's part of each
  for (int first = 0; first < x.columns; first += depth) {
    load_tile<side, depth>(xs, x, first_row, first);
    load_tile<w_rows, w_columns>(ws, w, out_in ? first_column : first,
                                 out_in ? first : first_column);
    __syncthreads();
    for (int k = 0; k < depth; k += 16) {
      std::uint32_t left[4][4], right[2][4];
      for (int m = 0; m < 4; ++m)
        ptx::ldmatrix_x4(left[m],
                         xs + (warp_row + 16 * m + lane % 16) * x_pitch + k + lane / 16 * 8);
      for (int n = 0; n < 2; ++n) {
        const int column = warp_column + 16 * n + lane / 16 * 8;
        if constexpr (out_in)
          ptx::ldmatrix_x4(right[n], ws + (column + lane % 8) * w_pitch + k + lane / 8 % 2 * 8);
        else
          ptx::ldmatrix_x4_transposed(right[n], ws + (k + lane % 16) * w_pitch + column);
      }
      for (int m = 0; m < 4; ++m)
        for (int n = 0; n < 4; ++n)
          ptx::mma_m16n8k16<T>(sums[m][n], left[m], right[n / 2][n % 2 * 2],
                               right[n / 2][n % 2 * 2 + 1]);
    }
    __syncthreads();  // before the next tiles overwrite these
  }
  for (int i = 0; i < 64; ++i) {
    const int m = i / 16, n = i / 4 % 4, r = i % 4;
    const int row = first_row + warp_row + 16 * m + lane / 4 + r / 2 * 8;
    const int column = first_column + warp_column + 8 * n + lane % 4 * 2 + r % 2;
    if (row < y.rows && column < y.columns)
      y.data[row * y.stride + column] =
          rounded<T>(sums[m][n][r] + (bias != nullptr ? widen(bias[column]) : 0.0F));
  }
}

}  // namespace

void linear_forward_mma(Queue queue, In x, In w, In bias, Out y, WeightLayout layout) {
  const auto n = arguments::linear_forward(x, w, bias, y, layout);
  want_one_type("linear_forward_mma", {{"x", x}, {"w", w}, {"bias", bias}, {"y", y}});
  if (x.dtype == DType::f32) throw std::invalid_argument("tensor cores multiply bf16 and f16 here");
  const auto start = [&](auto element) {
    using T = decltype(element);
    const Grid blocks{groups_of(side, n.out), groups_of(side, n.rows)};
    launch({"linear_forward_mma", queue, blocks, dim3(threads)},
           layout == WeightLayout::out_in ? tensor_cores<true, T> : tensor_cores<false, T>,
           Matrix<const T>{x}, Matrix<const T>{w}, bias ? data_of<T>(bias) : nullptr, Matrix<T>{y});
  };
  x.dtype == DType::bf16 ? start(Bf16{}) : start(F16{});
}

}  // namespace lockstep::cuda
