#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/run/lesson.h"

namespace lockstep {

/// The settings of a lesson whose ranks share every layer.
inline LessonInfo tensor_lesson(const std::string& name, const std::string& question) {
  return {.name = name,
          .question = question,
          .microbatches = {1},
          .narrow = true,
          .axes = {Axis::tp},
          .tolerance = {.loss = 1e-5, .parameter = 1e-4},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

/// Throws UsageError for options that these lessons do not support.
inline void check_tensor_lesson(const Options& options) {
  if (options.plan.optimizer.clip > 0)
    throw UsageError(fmt::format("--clip {}: this lesson does not clip gradients; leave it out",
                                 options.plan.optimizer.clip));
}

}  // namespace lockstep
