#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/microbatch.h"
#include "core/run/lesson.h"

namespace lockstep {

/// Dynamic loss scaling (Micikevicius 2018, section 3.2; with the factors and defaults of PyTorch's
/// GradScaler). The backward pass is linear: scaling the loss by S scales all gradients by S, so
/// fewer gradients underflow in f16. S is a power of two, so multiplying and dividing by it are
/// exact. The best S is not known in advance and changes during training, so S grows until a
/// gradient overflows.
class LossScaler {
 public:
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

/// The run's initial scale: --scale, or the type's default if --scale is 0.
inline double first_scale(double asked, DType dtype) {
  if (asked > 0) return asked;
  return dtype == DType::f16 ? LossScaler::f16_default : 1;
}

/// Factor by which --overflow-at enlarges a loss, so that its gradients overflow in f16.
inline constexpr float outlier = 0x1p24F;

/// Throws UsageError for invalid or contradictory flags.
inline void check_scaling(const Options& options, double scale, int interval, int overflow_at) {
  int exponent = 0;
  if (scale != 0 && (scale < 1 || scale > 0x1p40 || std::frexp(scale, &exponent) != 0.5))
    throw UsageError(
        fmt::format("--scale {:g}: must be a power of two of at least 1, such as 1024, so that "
                    "scaling is exact",
                    scale));
  if (interval < 1)
    throw UsageError(fmt::format("--growth-interval {}: must be at least 1", interval));
  if (overflow_at < 0) return;
  if (overflow_at >= options.run.steps)
    throw UsageError(
        fmt::format("--overflow-at {}: steps are 0 to {}", overflow_at, options.run.steps - 1));
  if (options.platform.on_meta())
    throw UsageError(fmt::format(
        "--overflow-at {}: --device meta computes no values, so none can overflow; leave one "
        "of the two flags out",
        overflow_at));
  if (options.run.model.dtype != DType::f16 || scale == 1)
    throw UsageError(fmt::format(
        "--overflow-at {}: needs f16 and a loss scale above 1; use --precision f16", overflow_at));
}

/// The values of the loss-scaling flags, valid for the lesson's lifetime.
struct ScalingFlags {
  const double& scale;
  const int& growth_interval;
  const int& overflow_at;
};

/// Adds --scale, --growth-interval and --overflow-at, and their checks.
inline ScalingFlags scaling_flags(Lesson& lesson) {
  const ScalingFlags flags{
      .scale = lesson.flag("--scale", 0.0,
                           "initial loss scale, a power of two; 0: 65536 in f16, otherwise 1"),
      .growth_interval =
          lesson.flag("--growth-interval", 2000,
                      "steps in a row without overflow after which the loss scale doubles"),
      .overflow_at =
          lesson.flag("--overflow-at", -1,
                      "step whose loss is multiplied by 2^24, so that its f16 gradients overflow")};
  lesson.check([flags](const Options& options) {
    check_scaling(options, flags.scale, flags.growth_interval, flags.overflow_at);
  });
  return flags;
}

/// Returns the same microbatches with the loss multiplied by `scale`. They refer to the tokens of
/// `batch`, which must outlive them.
inline Batch scaled(const Batch& batch, float scale) {
  Batch result;
  result.microbatches = batch.microbatches;
  for (Microbatch& microbatch : result.microbatches) microbatch.loss_scale *= scale;
  return result;
}

}  // namespace lockstep
