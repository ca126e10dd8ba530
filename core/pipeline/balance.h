#pragma once

#include <vector>

#include "core/pipeline/simulator.h"

namespace lockstep {

// How to divide a model's blocks into stages. A split is the number of blocks of each stage, at
// least one. The embedding belongs to the first stage and the head to the last, so stages with
// equal numbers of blocks do not take equally long. Nor do stages whose ranks differ in speed.

/// The times of a model's parts for one microbatch on one rank. The time of a stage is the sum of
/// its parts'.
struct PartTimes {
  StageTimes embedding{};
  std::vector<StageTimes> blocks{};  ///< (layers)
  StageTimes head{};

  /// Returns the times of the stages that a split makes of these parts, on equal ranks.
  std::vector<StageTimes> stages(const std::vector<int>& split) const;
};

/// The times of the parts on the rank of each stage, (stages).
using PartTimesByStage = std::vector<PartTimes>;
/// Returns the times of the stages that a split makes of these parts.
std::vector<StageTimes> stages_of(const PartTimesByStage& parts, const std::vector<int>& split);

/// Returns the split whose longest stage, forward and backward of one microbatch, is as short as
/// possible; of these splits, the one with the smallest sum of squared stage times, so that the
/// other stages are balanced, too. Exact, by dynamic programming over the first block of each
/// stage, in O(stages · blocks²). Throws std::invalid_argument if there are more stages than
/// blocks.
std::vector<int> balanced_split(const PartTimesByStage& parts);
/// Does the same for equal ranks.
std::vector<int> balanced_split(const PartTimes& parts, int stages);

/// A split, and the simulated length of a step with it.
struct SimulatedSplit {
  std::vector<int> split;
  Picoseconds step = 0;
};

/// Returns the split with the shortest simulated step that the search finds, or `current` if it
/// finds none that is shorter. The longest stage alone does not determine a step's length: an
/// unequal stage also delays the warm-up and the cool-down, and a rank may have several stages.
/// Therefore, the search starts from balanced_split() and from `current`, and moves single blocks
/// from one stage to another as long as this shortens the step. `times` are the other inputs of the
/// simulation; their stages are not used. For very large schedules, the search ends early, after a
/// fixed number of simulations.
SimulatedSplit shortest_step(const PartTimesByStage& parts, const Schedule& schedule,
                             const PipelineTimes& times, const std::vector<int>& current);

}  // namespace lockstep
