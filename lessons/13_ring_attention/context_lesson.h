#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/error.h"
#include "core/plan/divisions.h"
#include "core/run/lesson.h"
#include "lessons/13_ring_attention/context_parallel.h"

namespace lockstep {

/// The settings of a lesson whose ranks share every sequence. The losses of long sequences differ
/// from one device's in the last digits, because the softmaxes are summed in a different order.
inline LessonInfo context_lesson(const std::string& name, const std::string& question) {
  return {.name = name,
          .question = question,
          .batch = 4,
          .microbatches = {1},
          .narrow = true,
          .clips = false,
          .axes = {Axis::cp},
          .tolerance = {.loss = 1e-5, .parameter = 1e-4},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

/// Adds --method, which selects how attention reaches other ranks' tokens (context_method). The
/// reference is valid for the lesson's lifetime.
inline const std::string& context_method_flag(Lesson& lesson) {
  return lesson.flag(
      "--method", std::string{"ring"}, {"ring", "ulysses", "gather"},
      "how attention reaches other ranks' tokens: keys and values travel around a ring, an "
      "all-to-all exchanges tokens for heads, or every rank gathers all keys and values");
}

/// Throws UsageError for a method that cannot divide the heads, or that gains nothing from stripes.
inline void check_context_method(const Plan& plan, ContextMethod method) {
  const int cp = plan.mesh.size(Axis::cp), tp = plan.mesh.size(Axis::tp);
  const int heads = plan.model().heads;
  const bool striped = plan.batch.context == ContextLayout::striped;
  const bool balanced = plan.batch.context == ContextLayout::balanced;
  if (method == ContextMethod::ulysses && (striped || balanced) && cp > 1)
    throw UsageError(fmt::format(
        "--layout {} with --method ulysses: each rank computes whole heads, so no layout can "
        "balance the work better, and {} would be copied one {} at a time; use --layout contiguous",
        striped ? "striped" : "balanced", striped ? "stripes" : "blocks",
        striped ? "token" : "block"));
  // Plan::validate checks --tp.
  if (method != ContextMethod::ulysses || heads % tp != 0 || plan.model().kv_heads() % tp != 0)
    return;
  check_heads(plan.model(),
              fmt::format("--method ulysses with --cp {}{} and --heads {}", cp,
                          tp > 1 ? fmt::format(", --tp {}", tp) : "", heads),
              Axis::cp, cp, tp, ", or --method ring");
}

}  // namespace lockstep
