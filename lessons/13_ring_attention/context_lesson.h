#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/run/lesson.h"
#include "lessons/13_ring_attention/context_parallel.h"

namespace lockstep {

/// The settings of a lesson whose ranks share every sequence. The losses of long sequences differ
/// from one device's in the last digits, because the softmaxes' sums have another order.
inline LessonInfo context_lesson(const std::string& name, const std::string& question) {
  return {.name = name,
          .question = question,
          .batch = 4,
          .microbatches = {1},
          .narrow = true,
          .axes = {Axis::cp},
          .tolerance = {.loss = 1e-5, .parameter = 1e-4},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

/// Throws UsageError for options that context parallelism does not support.
inline void check_context_lesson(const Options& options, ContextMethod method) {
  const RunConfig& run = options.run;
  if (run.optimizer.clip > 0)
    throw UsageError(fmt::format("--clip {}: this lesson does not clip gradients; leave it out",
                                 run.optimizer.clip));
  if (method == ContextMethod::ulysses && run.model.heads % run.cp != 0)
    throw UsageError(fmt::format(
        "--method ulysses with --cp {} and --heads {}: every rank takes the same number "
        "of whole heads; use {}, or --method ring",
        run.cp, run.model.heads, divisions_of_heads(run.model, Axis::cp, run.cp)));
}

}  // namespace lockstep
