/// Three versions of a matrix product, y = x W + bias, each of which adds one idea to the previous
/// version. The fourth is matrix_product_mma.cu, and the fifth kernels/cuda/linear.cu, which calls
/// cuBLASLt. The product takes 2 N in out FLOPs, but involves only N in + in out + N out elements:
/// each element is needed many times, and the question is where it is read from. Sums are in f32.

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/ladder/matrix_product.h"
#include "kernels/cuda/ladder/matrix_product_mma.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/narrow.cuh"

namespace lockstep::cuda {
namespace {

/// The views of one call, as addresses of T. Strides are in elements; `bias` may be null.
template <class T>
struct Product {
  const T *x, *w, *bias;
  T* y;
  std::int64_t x_stride, w_row, w_column, y_stride;
  int rows, in, out;

  // Elements beyond an edge are 0, and are not written.
  __device__ float x_at(int row, int k) const {
    return row < rows && k < in ? widen(x[row * x_stride + k]) : 0.0F;
  }
  __device__ float w_at(int k, int column) const {
    return k < in && column < out ? widen(w[k * w_row + column * w_column]) : 0.0F;
  }
  __device__ void write(int row, int column, float sum) const {
    if (row >= rows || column >= out) return;
    if (bias != nullptr) sum += widen(bias[column]);
    y[row * y_stride + column] = rounded<T>(sum);
  }
};

// -- 1: one thread per element of y ---------------------------------------------------------------

/// Each thread reads a row of x and a column of W. For each multiply-add it loads two elements,
/// mostly from a cache, and the loads take longer than the arithmetic.
template <class T>
__global__ void one_thread_per_element(Product<T> p) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  float sum = 0.0F;
  for (int k = 0; k < p.in; ++k) sum = fmaf(p.x_at(row, k), p.w_at(k, column), sum);
  p.write(row, column, sum);
}

// -- 2: tiles in shared memory --------------------------------------------------------------------

constexpr int tile = 32;

/// A block computes 32 x 32 elements of y. It loads a tile of x and a tile of W into shared memory,
/// one element of each per thread, and uses each element 32 times. Global memory and its caches
/// therefore deliver 32 times less data. Each multiply-add still loads two elements from shared
/// memory.
template <class T>
__global__ void __launch_bounds__(tile* tile) shared_tiles(Product<T> p) {
  __shared__ float xs[tile][tile], ws[tile][tile];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(blockIdx.x) * tile + tx;
  const int row = static_cast<int>(blockIdx.y) * tile + ty;
  float sum = 0.0F;
  for (int first = 0; first < p.in; first += tile) {
    xs[ty][tx] = p.x_at(row, first + tx);
    ws[ty][tx] = p.w_at(first + ty, column);
    __syncthreads();
    for (int k = 0; k < tile; ++k) sum = fmaf(xs[ty][k], ws[k][tx], sum);
    __syncthreads();  // before the next tiles overwrite these
  }
  p.write(row, column, sum);
}

// -- 3: tiles in registers ------------------------------------------------------------------------

constexpr int side = 16;           // threads in each direction of a block
constexpr int each = 4;            // elements of y per thread, in each direction
constexpr int wide = side * each;  // elements of y per block, in each direction
constexpr int depth = 16;          // columns of x per tile

/// Each thread computes 4 x 4 elements of y. For 16 multiply-adds it loads 8 elements from shared
/// memory. Step 4 adds tensor cores, which multiply whole tiles in one instruction.
template <class T>
__global__ void __launch_bounds__(side* side) register_tiles(Product<T> p) {
  __shared__ float xs[depth][wide + 1], ws[depth][wide];  // + 1: stores to different banks
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int first_column = static_cast<int>(blockIdx.x) * wide;
  const int first_row = static_cast<int>(blockIdx.y) * wide;
  float sums[each][each] = {};
  for (int first = 0; first < p.in; first += depth) {
    for (int i = 0; i < each; ++i) {
      xs[tx][ty + side * i] = p.x_at(first_row + ty + side * i, first + tx);
      ws[ty][tx + side * i] = p.w_at(first + ty, first_column + tx + side * i);
    }
    __syncthreads();
    for (int k = 0; k < depth; ++k) {
      float left[each], right[each];
      for (int i = 0; i < each; ++i) {
        left[i] = xs[k][ty + side * i];
        right[i] = ws[k][tx + side * i];
      }
      for (int i = 0; i < each; ++i)
        for (int j = 0; j < each; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < each; ++i)
    for (int j = 0; j < each; ++j)
      p.write(first_row + ty + side * i, first_column + tx + side * j, sums[i][j]);
}

// -------------------------------------------------------------------------------------------------

/// Returns a step that calls start(launch configuration, problem) with the problem of the
/// arguments' type, for blocks of `threads` that compute `rows` x `columns` elements of y.
template <class Start>
MatrixProductStep step(const char* name, dim3 threads, int columns, int rows, Start start) {
  return {name, [=](Queue queue, In x, In w, In bias, Out y, WeightLayout layout) {
            const auto n = arguments::linear_forward(x, w, bias, y, layout);
            want_one_type(name, {{"x", x}, {"w", w}, {"bias", bias}, {"y", y}});
            const Launch how{name, queue, Grid{groups_of(columns, n.out), groups_of(rows, n.rows)},
                             threads};
            with_type_of(x.dtype, [&](auto type) {
              using T = Pointee<decltype(type)>;
              const bool in_out = layout == WeightLayout::in_out;
              start(how, Product<T>{data_of<T>(x), data_of<T>(w),
                                    bias.elements() > 0 ? data_of<T>(bias) : nullptr, data_of<T>(y),
                                    x.row_stride, in_out ? n.out : 1, in_out ? 1 : n.in,
                                    y.row_stride, static_cast<int>(n.rows), static_cast<int>(n.in),
                                    static_cast<int>(n.out)});
            });
          }};
}

}  // namespace

std::vector<MatrixProductStep> matrix_product_ladder() {
  return {
      step("one thread per element", dim3(32, 8), 32, 8,
           []<class T>(const Launch& how, const Product<T>& p) {
             launch(how, one_thread_per_element<T>, p);
           }),
      step(
          "tiles in shared memory", dim3(tile, tile), tile, tile,
          []<class T>(const Launch& how, const Product<T>& p) { launch(how, shared_tiles<T>, p); }),
      step("tiles in registers", dim3(side, side), wide, wide,
           []<class T>(const Launch& how, const Product<T>& p) {
             launch(how, register_tiles<T>, p);
           }),
      {"tensor cores", linear_forward_mma, false},
  };
}

}  // namespace lockstep::cuda
