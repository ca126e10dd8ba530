#pragma once

#include <numeric>

#include "lessons/06_tensor_parallel/tensor_lesson.h"

namespace lockstep {

/// Throws UsageError for a sequence that the ranks cannot divide into equal shards.
inline void check_sequence_shards(const Options& options) {
  const int s = options.run.model.sequence, t = options.run.tp, cp = options.run.cp;
  if (s % (cp * t) == 0) return;
  const bool two_chunks = cp > 1 && options.run.context == ContextLayout::zigzag;
  const int unit = cp * std::lcm(t, two_chunks ? 2 : 1);
  const int shorter = s / unit * unit, longer = shorter + unit;
  const std::string shorter_flag = shorter > 0 ? fmt::format("--sequence {} or ", shorter) : "";
  throw UsageError(
      fmt::format("--sequence {} with {}--tp {}: each rank takes an equal part of the tokens; use "
                  "{}--sequence {}",
                  s, cp > 1 ? fmt::format("--cp {} ", cp) : "", t, shorter_flag, longer));
}

/// Throws UsageError for options that sequence parallelism does not support: those of tensor
/// parallelism, and a sequence that the ranks cannot divide.
inline void check_sequence_lesson(const Options& options) {
  check_tensor_lesson(options);
  check_sequence_shards(options);
}

}  // namespace lockstep
