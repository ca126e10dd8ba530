/// AdamW: each thread updates chunks of four parameters with their momenta and variances. The
/// kernel reads four arrays and writes three: 28 bytes per element in f32, 22 with a 16-bit
/// parameter and gradient. It is memory-bound, despite a square root and two divisions.
///
/// The kernel uses the arithmetic of kernels/element.h, and its results are bitwise identical to
/// the CPU's, because this file is compiled without fused multiply-adds.

#include "kernels/adamw_factors.h"
#include "kernels/arguments.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/launch.cuh"

namespace lockstep::cuda {
namespace {

constexpr int threads = 256;
constexpr int size = per_vector<float>;  // elements per 16 bytes of the widest arrays

template <class P, class G>
__global__ void __launch_bounds__(threads)
    adamw_kernel(element::AdamWFactors factors, std::int64_t n, P* parameter, const G* gradient,
                 float* momentum, float* variance) {
  // Align chunks to the moments, which account for most of the bytes.
  const Cut cut = Cut::chunk<size>(std::int64_t{blockIdx.x} * threads + threadIdx.x, momentum, n);
  const std::int64_t i = cut.first;
  auto p = Source<P>{parameter, parameter + n}.template load<size>(i, cut.count, P{});
  const auto g = Source<G>{gradient, gradient + n}.template load<size>(i, cut.count, G{});
  auto m = Source<float>{momentum, momentum + n}.load<size>(i, cut.count, 0.0F);
  auto v = Source<float>{variance, variance + n}.load<size>(i, cut.count, 0.0F);
#pragma unroll
  for (int k = 0; k < size; ++k) {
    float wide = widen(p.at[k]);
    element::adamw(factors, widen(g.at[k]), wide, m.at[k], v.at[k]);
    p.at[k] = rounded<P>(wide);
  }
  store(parameter + i, p, cut.count);
  store(momentum + i, m, cut.count);
  store(variance + i, v, cut.count);
}

void adamw(Queue queue, InOut parameter, In gradient, InOut32 momentum, InOut32 variance,
           const AdamWStep& step) {
  const std::int64_t n = arguments::adamw(parameter, gradient, momentum, variance, step);
  const element::AdamWFactors factors = adamw_factors(step);
  const std::int64_t blocks = n == 0 ? 0 : groups_of(std::int64_t{threads} * size, n + size - 1);
  with_type_of(parameter.dtype, [&](auto parameter_type) {
    with_type_of(gradient.dtype, [&](auto gradient_type) {
      using P = Pointee<decltype(parameter_type)>;
      using G = Pointee<decltype(gradient_type)>;
      launch({"adamw", queue, Grid{blocks}, dim3(threads)}, adamw_kernel<P, G>, factors, n,
             data_of<P>(parameter), data_of<G>(gradient), momentum.f32(), variance.f32());
    });
  });
}

}  // namespace

void set_optimizer(Kernels& kernels) {
  kernels.adamw = adamw;
}

}  // namespace lockstep::cuda
