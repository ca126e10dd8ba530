#pragma once

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "lessons/14_mixed_precision/mixed_precision.h"

namespace lockstep {

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
  if (options.plan.model().dtype != DType::f16 || scale == 1)
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
  lesson.hooks.checks.emplace_back([flags](const Options& options) {
    check_scaling(options, flags.scale, flags.growth_interval, flags.overflow_at);
  });
  return flags;
}

}  // namespace lockstep
