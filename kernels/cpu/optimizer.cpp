/// Optimizer kernels: AdamW; sums in double, for gradient norms and losses; and counts of
/// elements that are not finite. AdamW reads four arrays and writes three (28 bytes per element),
/// so it is memory-bound.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/adamw_factors.h"
#include "kernels/arguments.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/reduce.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

void adamw(Queue, const std::vector<AdamWTensor>& tensors, const AdamWStep& step) {
  const element::AdamWFactors f = adamw_factors(step);
  for (const AdamWTensor& tensor : tensors) {
    const std::int64_t n = arguments::adamw(tensor, step);
    float* const parameters = tensor.parameter.f32();
    const float* const gradients = tensor.gradient.f32();
    float* const momenta = tensor.momentum.f32();
    float* const variances = tensor.variance.f32();
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i)
      element::adamw(f, gradients[i], parameters[i], momenta[i], variances[i]);
    if (tensor.rounded) std::copy_n(parameters, n, tensor.rounded.f32());
  }
}

/// sums[i] = Σ f(x) over the elements x of xs[i].
template <typename F>
void sum_each(const char* name, const Ins& xs, View sums, F f) {
  arguments::sums(name, xs, sums);
  auto* const to = static_cast<double*>(sums.data);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const float* const data = xs[i].f32();
    to[i] = lane_sum<double>(xs[i].elements(), [data, f](std::int64_t k) { return f(data[k]); });
  }
}

void take_sums(Queue, const Ins& xs, Out32 to) {
  sum_each("sums", xs, to, [](float x) { return static_cast<double>(x); });
}

void sums_of_squares(Queue, const Ins& xs, Out32 to) {
  sum_each("sums_of_squares", xs, to, [](float x) { return static_cast<double>(x) * x; });
}

void counts_of_not_finite(Queue, const Ins& xs, Out32 to) {
  // The comparison is also false for NaN.
  sum_each("counts_of_not_finite", xs, to,
           [](float x) { return std::fabs(x) <= std::numeric_limits<float>::max() ? 0.0 : 1.0; });
}

}  // namespace

void set_optimizer(Kernels& kernels) {
  kernels.adamw = adamw;
  kernels.sums = take_sums;
  kernels.sums_of_squares = sums_of_squares;
  kernels.counts_of_not_finite = counts_of_not_finite;
}

}  // namespace lockstep::cpu
