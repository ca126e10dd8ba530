#pragma once

#include <cmath>

#include "kernels/element.h"
#include "kernels/kernels.h"

namespace lockstep {

/// Returns the scalars of one AdamW step, computed in double as in PyTorch and rounded to f32 once.
inline element::AdamWFactors adamw_factors(const AdamWStep& step) {
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

}  // namespace lockstep
