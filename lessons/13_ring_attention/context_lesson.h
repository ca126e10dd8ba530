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

/// Adds --method, how attention reaches other ranks' tokens (context_method). The reference is
/// valid for the lesson's lifetime.
inline const std::string& context_method_flag(Lesson& lesson) {
  return lesson.flag(
      "--method", std::string{"ring"}, {"ring", "ulysses", "gather"},
      "how attention reaches other ranks' tokens: keys and values travel around a ring, an "
      "all-to-all exchanges tokens for heads, or every rank gathers all keys and values");
}

/// Throws UsageError for a method that cannot divide the heads.
inline void check_context_method(const Options& options, ContextMethod method) {
  const RunConfig& run = options.run;
  if (method != ContextMethod::ulysses || run.model.heads % (run.tp * run.cp) == 0) return;
  if (run.tp > 1) {
    const int parts = run.tp * run.cp, heads = (run.model.heads + parts - 1) / parts * parts;
    throw UsageError(fmt::format(
        "--method ulysses with --cp {}, --tp {} and --heads {}: every rank takes the same number "
        "of whole heads; use --heads {}{}, or --method ring",
        run.cp, run.tp, run.model.heads, heads,
        run.model.hidden % heads == 0
            ? ""
            : fmt::format(" with --hidden {}", (run.model.hidden + heads - 1) / heads * heads)));
  }
  throw UsageError(
      fmt::format("--method ulysses with --cp {} and --heads {}: every rank takes the same number "
                  "of whole heads; use {}, or --method ring",
                  run.cp, run.model.heads, divisions_of_heads(run.model, Axis::cp, run.cp)));
}

/// Throws UsageError for options that the lesson does not support.
inline void check_context_lesson(const Options& options, ContextMethod method) {
  if (options.run.optimizer.clip > 0)
    throw UsageError(fmt::format("--clip {}: this lesson does not clip gradients; leave it out",
                                 options.run.optimizer.clip));
  check_context_method(options, method);
}

}  // namespace lockstep
