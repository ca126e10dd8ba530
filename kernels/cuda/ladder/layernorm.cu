/// Three versions of layer normalisation's forward pass, each of which adds one idea to the
/// previous version. The fourth is kernels/cuda/layernorm_forward.cu. All need the mean before the
/// variance, and both before y; the question is how often, and in what pattern, a row of h elements
/// is read. The least possible traffic is one read of x and one write of y: 2 N h elements.

#include "kernels/cuda/ladder/layernorm.h"

#include "kernels/arguments.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/shared.cuh"

namespace lockstep::cuda {
namespace {

constexpr float epsilon = 1e-5F;

/// The views of one call, as addresses of T.
template <class T>
struct Problem {
  const T *x, *gain, *bias;
  T* y;
  float *mean, *rstd;
  int rows, h;

  __device__ void write(std::int64_t row, int column, float value, float mu, float r) const {
    y[row * h + column] = rounded<T>((value - mu) * r * widen(gain[column]) + widen(bias[column]));
  }
};

// -- 1: one thread per row ------------------------------------------------------------------------

/// Each thread treats its row as a CPU would. The 32 threads of a warp read 32 rows, so each of the
/// warp's loads touches 32 cache lines, of which it uses one element each. Rows are read three
/// times. With few rows, most multiprocessors have nothing to do.
template <class T>
__global__ void one_thread_per_row(Problem<T> p) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= p.rows) return;
  const T* const x = p.x + std::int64_t{row} * p.h;
  float sum = 0.0F;
  for (int i = 0; i < p.h; ++i) sum += widen(x[i]);
  const float mean = sum / static_cast<float>(p.h);
  float squares = 0.0F;
  for (int i = 0; i < p.h; ++i) squares += (widen(x[i]) - mean) * (widen(x[i]) - mean);
  const float rstd = 1.0F / sqrtf(squares / static_cast<float>(p.h) + epsilon);
  for (int i = 0; i < p.h; ++i) p.write(row, i, widen(x[i]), mean, rstd);
  p.mean[row] = mean;
  p.rstd[row] = rstd;
}

// -- 2: one warp per row --------------------------------------------------------------------------

constexpr int warps = 4;  // per block

/// Returns the sum over a warp, on all lanes.
__device__ float sum_over_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  return value;
}

/// The lanes of a warp read 32 adjacent elements, so a load touches as few cache lines as possible
/// (it is coalesced). Lanes add their sums by shuffles, without shared memory. Rows are still read
/// three times; the second and third time mostly from a cache.
template <class T>
__global__ void one_warp_per_row(Problem<T> p) {
  const int row = static_cast<int>(blockIdx.x * warps + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= p.rows) return;  // the whole warp
  const T* const x = p.x + std::int64_t{row} * p.h;
  float sum = 0.0F;
  for (int i = lane; i < p.h; i += 32) sum += widen(x[i]);
  const float mean = sum_over_warp(sum) / static_cast<float>(p.h);
  float squares = 0.0F;
  for (int i = lane; i < p.h; i += 32) squares += (widen(x[i]) - mean) * (widen(x[i]) - mean);
  const float rstd = 1.0F / sqrtf(sum_over_warp(squares) / static_cast<float>(p.h) + epsilon);
  for (int i = lane; i < p.h; i += 32) p.write(row, i, widen(x[i]), mean, rstd);
  if (lane == 0) {
    p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

// -- 3: one block per row, which it reads once ----------------------------------------------------

constexpr int threads = 256;  // per block

/// A wrong turn (see the measurements in kernels/cuda/README.md). The block keeps its row in shared
/// memory, widened to f32, so it reads x only once, and more threads work on a row. The price is
/// two sums over a block instead of a warp: at each of their three barriers, all 8 warps wait.
/// Step 4 also reads x once, but keeps a short row in the registers of one warp, and it loads 16
/// bytes at a time instead of one element.
template <class T>
__global__ void __launch_bounds__(threads) one_block_per_row(Problem<T> p) {
  using Sums = BlockReduction<float, threads>;
  __shared__ typename Sums::Storage storage;
  auto* const kept = dynamic_shared<float>();
  const std::int64_t row = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x);
  float sum = 0.0F;
  for (int i = first; i < p.h; i += threads) {
    kept[i] = widen(p.x[row * p.h + i]);
    sum += kept[i];
  }
  const float mean = Sums(storage)(sum, Sum{}) / static_cast<float>(p.h);
  float squares = 0.0F;
  for (int i = first; i < p.h; i += threads) squares += (kept[i] - mean) * (kept[i] - mean);
  const float variance = Sums(storage)(squares, Sum{}) / static_cast<float>(p.h);
  const float rstd = 1.0F / sqrtf(variance + epsilon);
  for (int i = first; i < p.h; i += threads) p.write(row, i, kept[i], mean, rstd);
  if (threadIdx.x == 0) {
    p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

// -------------------------------------------------------------------------------------------------

/// Returns a step that calls start(queue, problem) with the problem of the arguments' type.
template <class Start>
LayerNormStep step(const char* name, Start start) {
  return {name, [start](Queue queue, In x, In gain, In bias, Out y, Out32 mean, Out32 rstd) {
            const auto n = arguments::layernorm_forward(x, gain, bias, y, mean, rstd);
            with_type_of(x.dtype, [&](auto type) {
              using T = Pointee<decltype(type)>;
              start(queue, Problem<T>{data_of<T>(x), data_of<T>(gain), data_of<T>(bias),
                                      data_of<T>(y), mean.f32(), rstd.f32(),
                                      static_cast<int>(n.rows), static_cast<int>(n.columns)});
            });
          }};
}

}  // namespace

std::vector<LayerNormStep> layernorm_ladder() {
  return {
      step("one thread per row",
           []<class T>(Queue queue, const Problem<T>& p) {
             launch({"one_thread_per_row", queue, Grid{groups_of(128, p.rows)}, dim3(128)},
                    one_thread_per_row<T>, p);
           }),
      step("one warp per row",
           []<class T>(Queue queue, const Problem<T>& p) {
             launch({"one_warp_per_row", queue, Grid{groups_of(warps, p.rows)}, dim3(32 * warps)},
                    one_warp_per_row<T>, p);
           }),
      step("one block per row, read once",
           []<class T>(Queue queue, const Problem<T>& p) {
             launch({"one_block_per_row", queue, Grid{p.rows}, dim3(threads),
                     static_cast<std::size_t>(p.h) * sizeof(float)},
                    one_block_per_row<T>, p);
           }),
  };
}

}  // namespace lockstep::cuda
