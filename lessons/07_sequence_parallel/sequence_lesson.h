#pragma once

#include <numeric>

#include "core/plan/divisions.h"
#include "lessons/06_tensor_parallel/tensor_lesson.h"

namespace lockstep {

/// Throws UsageError for a sequence that the ranks cannot divide into equal shards.
inline void check_sequence_shards(const Plan& plan) {
  const int s = plan.model().sequence;
  const int t = plan.mesh.size(Axis::tp), cp = plan.mesh.size(Axis::cp);
  const bool two_chunks = cp > 1 && plan.batch.context == ContextLayout::zigzag;
  check_division(
      {.flags = fmt::format("--sequence {} with {}--tp {}", s,
                            cp > 1 ? fmt::format("--cp {} ", cp) : "", t),
       .whole = s,
       .items = "positions",
       .by = cp * t,
       .into = fmt::format("{} equal shards", cp * t)},
      [&] { return nearest_multiples("--sequence", cp * std::lcm(t, two_chunks ? 2 : 1), s); });
}

}  // namespace lockstep
