#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/microbatch.h"
#include "core/run/options.h"

namespace lockstep {

/// Dynamic loss scaling (Micikevicius 2018, section 3.2; halving, doubling and their defaults as
/// PyTorch's GradScaler has them). Backward is linear: of a loss that is S times as large all
/// gradients are S times as large, and so less of them lies below what f16 can tell from zero. S is
/// a power of two, so that multiplying and dividing by it rounds nothing. Which S is right nobody
/// knows beforehand, and it changes: so it grows until a gradient overflows.
class LossScaler {
 public:
  /// To begin with.
  static constexpr double f16_default = 65536;
  static constexpr double least = 0x1p-14;

  struct Change {
    int step;
    double from, to;  ///< `to` is smaller where the step was skipped
  };

  /// `growth_interval`: after how many good steps in a row the scale doubles.
  LossScaler(double scale, int growth_interval)
      : scale_(scale), growth_interval_(growth_interval) {}

  float scale() const { return static_cast<float>(scale_); }
  float unscale() const { return static_cast<float>(1 / scale_); }

  /// To be asked after each backward: may the optimizer take the step? It may where all gradients
  /// are finite. Otherwise one that is not a number would make the weights so, for good: the step
  /// is skipped, as if its batch had never been, and the scale halved. Replicas that have summed
  /// their gradients all get the same answer. Throws RunError where the scale has become so small
  /// that it can't be its fault.
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
      throw RunError(
          fmt::format("step {}: the gradients overflow at a loss scale of {:g} too, so scaling is "
                      "not to blame; use a lower --lr, or --precision bf16",
                      step, before));
    return finite;
  }

  const std::vector<Change>& changes() const { return changes_; }
  /// The last of them, for the trace.
  std::string json() const {
    const Change& last = changes_.back();
    return fmt::format(R"({{"step":{},"from":{},"to":{}}})", last.step, last.from, last.to);
  }

 private:
  double scale_;
  int growth_interval_;
  int good_ = 0;  ///< steps in a row
  std::vector<Change> changes_;
};

/// What the run begins with: --scale, or where that is 0 what suits the type.
inline double first_scale(double asked, DType dtype) {
  if (asked > 0) return asked;
  return dtype == DType::f16 ? LossScaler::f16_default : 1;
}

/// How much larger than it is a loss is made so that its gradients overflow in f16 (--overflow-at).
inline constexpr float outlier = 0x1p24F;

/// Throws UsageError for flags that make no sense together.
inline void check_scaling(const Options& options, double scale, int interval, int overflow_at) {
  int exponent = 0;
  if (scale != 0 && (scale < 1 || scale > 0x1p40 || std::frexp(scale, &exponent) != 0.5))
    throw UsageError(
        fmt::format("--scale {:g}: wants a power of two from 1 on, so that scaling rounds nothing, "
                    "such as 1024",
                    scale));
  if (interval < 1)
    throw UsageError(fmt::format("--growth-interval {}: wants a number of at least 1", interval));
  if (overflow_at < 0) return;
  if (overflow_at >= options.steps)
    throw UsageError(
        fmt::format("--overflow-at {}: steps are 0 to {}", overflow_at, options.steps - 1));
  if (options.on_meta())
    throw UsageError(fmt::format(
        "--overflow-at {} with --device meta: it computes nothing, so nothing overflows; leave one "
        "of them out",
        overflow_at));
  if (options.model.dtype != DType::f16 || scale == 1)
    throw UsageError(fmt::format(
        "--overflow-at {}: needs f16 and a loss scale above 1; use --precision f16", overflow_at));
}

/// The same microbatches with `scale` times the loss. They refer to the tokens of `batch`.
inline Batch scaled(const Batch& batch, float scale) {
  Batch result;
  result.microbatches = batch.microbatches;
  for (Microbatch& microbatch : result.microbatches) microbatch.loss_scale *= scale;
  return result;
}

}  // namespace lockstep
