#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lessons/17_choosing/plan/configuration.h"

namespace lockstep {

/// The configurations to consider. If a value is set, only that value is considered.
struct SearchSpace {
  std::optional<int> dp, tp, pp, cp, ep, zero, microbatch, chunks;
  std::optional<std::string> schedule;
  std::optional<Recompute> recompute;
  std::vector<std::string> schedules{"1f1b", "interleaved", "zb-h1"};

  bool operator==(const SearchSpace&) const = default;
};

/// Whether tp ranks can divide the model's heads and MLP, and tp and cp ranks its sequences.
bool divides(const TrainingTask& task, int tp, int cp);
/// The largest number of microbatches of a step that is planned: recording takes time and memory
/// for each.
constexpr int most_microbatches = 8192;

/// Returns all configurations of the space that might train the task, without checking that the
/// lesson can run them.
std::vector<Configuration> configurations(const TrainingTask& task, const SearchSpace& space);

}  // namespace lockstep
