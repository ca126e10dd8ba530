#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/device/memory.h"

namespace lockstep {

/// Consecutive steps that are alike: the same schedule, the same m. A run is a list of phases, and
/// what is predicted and observed is told for each.
struct Phase {
  std::string name;  ///< "m = 8"
  int first_step = 0;
  int steps = 0;
  int microbatches = 1;  ///< m
};

/// What the formulas say of one rank during a phase; what is left out is not compared.
struct Predicted {
  std::string formula;           ///< of the bubble: "(p-1)/(m+p-1)"
  std::optional<double> bubble;  ///< of the whole step, by the closed form
  /// What the simulator says, with the stages' own costs and the cluster's links.
  std::optional<double> bubble_simulated;
  std::map<std::string, std::int64_t> bytes_sent;  ///< by operation, a step
  std::map<std::string, std::int64_t> peak_bytes;  ///< by memory category
  std::string schedule;  ///< which schedule the steps follow, where one does
  int stages = 0;
};

}  // namespace lockstep
