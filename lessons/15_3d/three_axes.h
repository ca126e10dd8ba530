#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/run/lesson.h"

namespace lockstep {

/// The settings of a lesson on a mesh of three axes. Two ranks along each axis are the default.
inline LessonInfo three_axes(const std::string& name, const std::string& question) {
  return {.name = name,
          .question = question,
          .ranks = 8,
          .microbatches = {4},
          .narrow = true,
          .axes = {Axis::dp, Axis::pp, Axis::tp},
          .sizes = {{Axis::pp, 2}, {Axis::tp, 2}},
          .tolerance = {.loss = 1e-5, .parameter = 1e-4},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

/// Throws UsageError for options that the lesson does not support.
inline void check_three_axes(const Options& options, int bucket_bytes) {
  if (bucket_bytes < 1)
    throw UsageError(
        fmt::format("--bucket {}: a bucket has at least one layer's gradients; give at least "
                    "1 byte, such as --bucket 200000",
                    bucket_bytes));
  if (options.platform.clock.times().any())
    throw UsageError(
        "--time: the time of a whole action does not determine when its layers communicate; leave "
        "it out, and set the costs with --cluster");
}

}  // namespace lockstep
