/// Two versions of layer normalisation's backward pass for its input, each of which adds one idea
/// to the previous version. The third is kernels/cuda/layernorm_backward.cu. With d = dy gain and
/// x̂ = (x - mean) rstd,  dx = rstd (d - mean(d) - x̂ mean(d x̂)): two sums over a row, and only then
/// dx. The least possible traffic is one read of dy and x and one write of dx: 3 N h elements.

#include "kernels/cuda/ladder/layernorm_backward.h"

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/narrow.cuh"

namespace lockstep::cuda {
namespace {

/// The views of one call, as addresses of T.
template <class T>
struct Problem {
  const T *dy, *x, *gain;
  const float *mean, *rstd;
  T* dx;
  int rows, h;

  __device__ float d(int row, int column) const {
    return widen(dy[std::int64_t{row} * h + column]) * widen(gain[column]);
  }
  __device__ float normalised(int row, int column) const {
    return (widen(x[std::int64_t{row} * h + column]) - mean[row]) * rstd[row];
  }
  /// Writes an element of dx, from the row's sums of d and of d x̂.
  __device__ void write(int row, int column, float sum_d, float sum_dx) const {
    const float means = (sum_d + normalised(row, column) * sum_dx) / static_cast<float>(h);
    dx[std::int64_t{row} * h + column] = rounded<T>(rstd[row] * (d(row, column) - means));
  }
};

// -- 1: one thread per row ------------------------------------------------------------------------

/// As in the forward pass, a warp's loads touch 32 rows, and thus 32 cache lines for 32 elements.
template <class T>
__global__ void one_thread_per_row(Problem<T> p) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= p.rows) return;
  float sum_d = 0.0F, sum_dx = 0.0F;
  for (int i = 0; i < p.h; ++i) {
    sum_d += p.d(row, i);
    sum_dx += p.d(row, i) * p.normalised(row, i);
  }
  for (int i = 0; i < p.h; ++i) p.write(row, i, sum_d, sum_dx);
}

// -- 2: one warp per row --------------------------------------------------------------------------

constexpr int warps = 4;  // per block

/// Returns the sum over a warp, on all lanes.
__device__ float sum_over_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  return value;
}

/// The lanes of a warp read adjacent elements (coalesced) and add their sums by shuffles. dy and x
/// are still read twice, the second time mostly from a cache. Step 3 loads 16 bytes at a time and
/// keeps both rows in registers.
template <class T>
__global__ void one_warp_per_row(Problem<T> p) {
  const int row = static_cast<int>(blockIdx.x * warps + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= p.rows) return;  // the whole warp
  float sum_d = 0.0F, sum_dx = 0.0F;
  for (int i = lane; i < p.h; i += 32) {
    sum_d += p.d(row, i);
    sum_dx += p.d(row, i) * p.normalised(row, i);
  }
  sum_d = sum_over_warp(sum_d), sum_dx = sum_over_warp(sum_dx);
  for (int i = lane; i < p.h; i += 32) p.write(row, i, sum_d, sum_dx);
}

// -------------------------------------------------------------------------------------------------

/// Returns a step that calls start(queue, problem) with the problem of the arguments' type.
template <class Start>
LayerNormBackwardStep step(const char* name, Start start) {
  return {name, [=](Queue queue, In dy, In x, In gain, In32 mean, In32 rstd, Out dx) {
            const auto n = arguments::layernorm_backward_input(dy, x, gain, mean, rstd, dx);
            want_one_type(name, {{"dy", dy}, {"x", x}, {"gain", gain}, {"dx", dx}});
            with_type_of(x.dtype, [&](auto type) {
              using T = Pointee<decltype(type)>;
              start(queue, Problem<T>{data_of<T>(dy), data_of<T>(x), data_of<T>(gain), mean.f32(),
                                      rstd.f32(), data_of<T>(dx), static_cast<int>(n.rows),
                                      static_cast<int>(n.columns)});
            });
          }};
}

}  // namespace

std::vector<LayerNormBackwardStep> layernorm_backward_ladder() {
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
  };
}

}  // namespace lockstep::cuda
