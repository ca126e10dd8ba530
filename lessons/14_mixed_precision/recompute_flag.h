#pragma once

#include <string>

#include "core/run/lesson.h"
#include "lessons/14_mixed_precision/recompute.h"

namespace lockstep {

/// Adds --recompute (recompute_of). The reference is valid for the lesson's lifetime.
inline const std::string& recompute_flag(Lesson& lesson, Recompute otherwise) {
  return lesson.flag(
      "--recompute", std::string{name_of(otherwise)}, {"none", "selective", "full"},
      "what backward recomputes: nothing, attention's probabilities, or whole blocks");
}

}  // namespace lockstep
