/// The optimizer's kernels: AdamW reads four arrays and writes three (28 bytes an element, bound by
/// memory), and two sums in double for gradient norms and losses.

#include <cmath>
#include <stdexcept>

#include "kernels/cpu/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/reduce.h"
#include "kernels/element.h"

namespace lockstep::cpu {
namespace {

/// The scalars of a step in double, as PyTorch computes them, rounded once.
element::AdamWFactors factors(const AdamWStep& step) {
  if (step.step < 1) throw std::invalid_argument("adamw: steps are counted from 1");
  const double beta1 = step.beta1, beta2 = step.beta2, rate = step.learning_rate;
  const auto count = static_cast<double>(step.step);
  return {.gradient_scale = step.gradient_scale,
          .beta1 = step.beta1,
          .one_minus_beta1 = static_cast<float>(1.0 - beta1),
          .beta2 = step.beta2,
          .one_minus_beta2 = static_cast<float>(1.0 - beta2),
          .shrink = static_cast<float>(1.0 - rate * static_cast<double>(step.weight_decay)),
          .step_size = static_cast<float>(rate / (1.0 - std::pow(beta1, count))),
          .inverse_root_bias = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, count))),
          .epsilon = step.epsilon};
}

}  // namespace

void CpuKernels::adamw(Queue, View parameter, View gradient, View momentum, View variance,
                       const AdamWStep& step) const {
  const Named p{"parameter", parameter};
  want_contiguous("adamw", {p, {"gradient", gradient}, {"momentum", momentum}});
  want_contiguous("adamw", {{"variance", variance}});
  want_same_elements("adamw", {"gradient", gradient}, p);
  want_same_elements("adamw", {"momentum", momentum}, p);
  want_same_elements("adamw", {"variance", variance}, p);

  const element::AdamWFactors f = factors(step);
  float* const parameters = parameter.f32();
  const float* const gradients = gradient.f32();
  float* const momenta = momentum.f32();
  float* const variances = variance.f32();
  const std::int64_t n = parameter.elements();
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    element::adamw(f, gradients[i], parameters[i], momenta[i], variances[i]);
}

double CpuKernels::sum_of_squares(Queue, View x) const {
  want_contiguous("sum_of_squares", {{"x", x}});
  const float* const data = x.f32();
  return lane_sum<double>(x.elements(), [data](std::int64_t i) {
    const double value = data[i];
    return value * value;
  });
}

bool CpuKernels::finite(Queue, View x) const {
  want_contiguous("finite", {{"x", x}});
  const float* const data = x.f32();
  // Zero times what is finite is zero; times anything else NaN, which no addition makes good.
  return lane_sum(x.elements(), [data](std::int64_t i) { return data[i] * 0.0F; }) == 0.0F;
}

double CpuKernels::sum(Queue, View x) const {
  want_contiguous("sum", {{"x", x}});
  const float* const data = x.f32();
  return lane_sum<double>(x.elements(),
                          [data](std::int64_t i) { return static_cast<double>(data[i]); });
}

}  // namespace lockstep::cpu
