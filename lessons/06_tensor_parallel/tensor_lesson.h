#pragma once

#include <string>

#include "core/run/lesson.h"

namespace lockstep {

/// The settings of a lesson whose ranks share every layer.
inline LessonInfo tensor_lesson(const std::string& name, const std::string& question) {
  return {.name = name,
          .question = question,
          .microbatches = {1},
          .narrow = true,
          .clips = false,
          .axes = {Axis::tp},
          .tolerance = {.loss = 1e-5, .parameter = 1e-4},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

}  // namespace lockstep
