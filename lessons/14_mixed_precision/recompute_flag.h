#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "lessons/14_mixed_precision/recompute.h"

namespace lockstep {

/// Adds --recompute (recompute_of). The reference is valid for the lesson's lifetime.
inline const std::string& recompute_flag(Lesson& lesson, Recompute otherwise) {
  const std::string& mode =
      lesson.flag("--recompute", std::string{name_of(otherwise)}, {"none", "selective", "full"},
                  "what backward recomputes: nothing, attention's probabilities, or whole blocks");
  lesson.hooks.checks.emplace_back([&mode](const Options& options) {
    if (mode == name_of(Recompute::none) && options.plan.batch.documents > 0)
      throw UsageError(fmt::format(
          "--recompute none with --documents {}: the probabilities of packed documents are not "
          "kept; use --recompute selective",
          options.plan.batch.documents));
  });
  return mode;
}

}  // namespace lockstep
