#pragma once

#include <string>
#include <vector>

#include "core/run/lesson.h"
#include "lessons/02_data_parallel/data_parallel.h"

namespace lockstep {

inline const char* name_of(GradientSync sync) {
  return sync == GradientSync::none ? "none" : sync == GradientSync::bucket ? "bucket" : "overlap";
}
/// Parses the value of --overlap: the name of one mode, or "all" for all modes in turn.
inline std::vector<GradientSync> gradient_syncs(const std::string& word) {
  std::vector<GradientSync> syncs;
  for (const GradientSync sync : {GradientSync::none, GradientSync::bucket, GradientSync::overlap})
    if (word == "all" || word == name_of(sync)) syncs.push_back(sync);
  return syncs;
}

/// Adds --overlap (gradient_syncs). The reference is valid for the lesson's lifetime.
inline const std::string& overlap_flag(Lesson& lesson) {
  return lesson.flag(
      "--overlap", std::string{"all"}, {"all", "none", "bucket", "overlap"},
      "when gradients are summed: after backward by tensor, by bucket, or during it; or each in "
      "turn");
}

}  // namespace lockstep
