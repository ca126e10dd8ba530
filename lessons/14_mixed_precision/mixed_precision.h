#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/microbatch.h"

namespace lockstep {

// Mixed precision (Micikevicius 2018): weights, gradients and activations are stored in 16 bits.
// The optimizer keeps an f32 master copy of each weight (AdamWOptions::masters), because an update
// is often too small to change a 16-bit weight. With f32 momentum and variance, these are 2 + 2 +
// 12 bytes per parameter. Kernels read 16-bit values, compute in f32, and round once. bf16 has
// f32's range; in f16, small gradients underflow, so the loss is scaled:
//
//     accumulate_gradients(model, scaled(batch, scaler.scale()));
//     if (scaler.take(step, optimizer.finite())) optimizer.step(scaler.unscale());

/// Dynamic loss scaling (Micikevicius 2018, section 3.2; with the factors and defaults of PyTorch's
/// GradScaler). The backward pass is linear: scaling the loss by S scales all gradients by S, so
/// fewer gradients underflow in f16. S is a power of two, so multiplying and dividing by it are
/// exact. The best S is not known in advance and changes during training, so S grows until a
/// gradient overflows.
class LossScaler {
 public:
  /// Returns whether the optimizer may take the step, which requires all gradients to be finite.
  /// Call it after each backward pass. A single infinite or NaN gradient would corrupt the weights
  /// permanently; if there is one, the step is skipped, its batch has no effect, and the scale is
  /// halved. All replicas get the same answer once they have summed their gradients. Throws
  /// RunError if the scale has become so small that it cannot be the cause of the overflow.
  bool take(int step, bool finite) {
    const double before = scale_;
    if (!finite) {
      scale_ /= 2;
      good_ = 0;
    } else if (++good_ == growth_interval_) {
      scale_ *= 2;
      good_ = 0;
    }
    if (scale_ != before) changes_.push_back({step, before, scale_});
    if (scale_ < least)
      throw RunError(fmt::format(
          "step {}: the gradients overflow even at a loss scale of {:g}, so the scale is "
          "not the cause; use a lower --lr, or --precision bf16",
          step, before));
    return finite;
  }

  /// The initial scale in f16.
  static constexpr double f16_default = 65536;
  static constexpr double least = 0x1p-14;

  struct Change {
    int step;
    double from, to;  ///< `to` is smaller if the step was skipped
  };

  /// `growth_interval` is the number of good steps in a row after which the scale doubles.
  LossScaler(double scale, int growth_interval)
      : scale_(scale), growth_interval_(growth_interval) {}

  float scale() const { return static_cast<float>(scale_); }
  float unscale() const { return static_cast<float>(1 / scale_); }

  int growth_interval() const { return growth_interval_; }
  const std::vector<Change>& changes() const { return changes_; }
  /// The latest change of the scale, for the trace.
  std::string json() const {
    const Change& last = changes_.back();
    return fmt::format(R"({{"step":{},"from":{},"to":{}}})", last.step, last.from, last.to);
  }

 private:
  double scale_;
  int growth_interval_;
  int good_ = 0;  ///< good steps in a row
  std::vector<Change> changes_;
};

/// Returns the same microbatches with the loss multiplied by `scale`. They refer to the tokens of
/// `batch`, which must outlive them.
inline Batch scaled(const Batch& batch, float scale) {
  Batch result;
  result.microbatches = batch.microbatches;
  for (Microbatch& microbatch : result.microbatches) microbatch.token_weight *= scale;
  return result;
}

}  // namespace lockstep
