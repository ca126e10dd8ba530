/// Optimizer kernels: AdamW; sums in double, for gradient norms and losses; and a check that all
/// gradients are finite. AdamW reads four arrays and writes three (28 bytes per element), so it is
/// memory-bound.

#include "kernels/adamw_factors.h"
#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/reduce.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

void adamw(Queue, InOut parameter, In gradient, InOut32 momentum, InOut32 variance,
           const AdamWStep& step) {
  const std::int64_t n = arguments::adamw(parameter, gradient, momentum, variance, step);
  const element::AdamWFactors f = adamw_factors(step);
  float* const parameters = parameter.f32();
  const float* const gradients = gradient.f32();
  float* const momenta = momentum.f32();
  float* const variances = variance.f32();
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    element::adamw(f, gradients[i], parameters[i], momenta[i], variances[i]);
}

double sum_of_squares(Queue, In x) {
  const std::int64_t n = arguments::one_view("sum_of_squares", x);
  const float* const data = x.f32();
  return lane_sum<double>(n, [data](std::int64_t i) {
    const double value = data[i];
    return value * value;
  });
}

bool finite(Queue, In x) {
  const std::int64_t n = arguments::one_view("finite", x);
  const float* const data = x.f32();
  // A finite number times zero is zero. ∞ or NaN times zero is NaN, which makes the sum NaN.
  return lane_sum(n, [data](std::int64_t i) { return data[i] * 0.0F; }) == 0.0F;
}

double sum(Queue, In x) {
  const std::int64_t n = arguments::one_view("sum", x);
  const float* const data = x.f32();
  return lane_sum<double>(n, [data](std::int64_t i) { return static_cast<double>(data[i]); });
}

}  // namespace

void set_optimizer(Kernels& kernels) {
  kernels.adamw = adamw;
  kernels.sum_of_squares = sum_of_squares;
  kernels.finite = finite;
  kernels.sum = sum;
}

}  // namespace lockstep::cpu
