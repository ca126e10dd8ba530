#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "core/base/memory_use.h"
#include "core/dry_run/dry_run.h"
#include "core/replay/replay.h"
#include "lessons/17_choosing/plan/configuration.h"

namespace lockstep {

/// The parts of one rank's step, which add up to it.
struct StepParts {
  Picoseconds step = 0;
  Picoseconds compute = 0, optimizer = 0;
  /// By axis ("tp", "cp", "dp", "ep", "pp"): the rank waits for a collective, or for a message in
  /// flight.
  std::map<std::string, Picoseconds> exposed{};
  /// By axis: the groups whose collectives and messages these are. Axes with the same ranks share a
  /// group.
  std::map<std::string, std::set<std::string>> groups{};
  Picoseconds bubble = 0;  ///< it waits for a message that has not left another stage yet
};

/// The figures of one step of a configuration.
struct StepFigures {
  Picoseconds step = 0;   ///< on the rank on which it takes longest
  int slowest = 0;        ///< this rank
  StepParts parts;        ///< of this rank
  int fullest = 0;        ///< the rank with the highest peak
  MemoryUse memory{};     ///< its peaks by category; activations and communication may peak at
                          ///< different times
  std::int64_t peak = 0;  ///< its highest total
  /// Whether step and parts equal those of the run, to the picosecond. Otherwise, the folding
  /// combined ranks that own different shares under ZeRO (folding_of).
  bool exact = true;
  std::map<int, DryFigures> of_rank;  ///< of the ranks that were run: representatives
};

/// Returns the finest folding of a run whose ranks are equal by construction, on its cluster: along
/// dp and, in models without biases, along tp. (Only the first rank of a tp group adds a bias.)
///
/// Under ZeRO, replicas own different parameters. With sequence parallelism, the one with the most
/// norms takes longest to sum their gradients over tp, and stands for all; if shards are padded,
/// the last replica updates fewer elements. Such a folded step is close, but not exact
/// (StepFigures), so small runs are not folded then.
Folding folding_of(const PlannedRun& run);

/// Records one step of the configuration, with equal ranks folded.
RunOperations record_step(const PlannedRun& run, const Folding& folding,
                          std::map<int, DryFigures>* figures = nullptr);

/// Returns the parts of a rank's step. The rank must have a section of the step.
StepParts parts_of(const Replay& replay, int rank, int step, const Mesh& mesh);

/// Returns the figures of a configuration: memory and bytes by a dry run, times by a replay. Leaves
/// out the times of a run that needs more than `most_memory` bytes.
StepFigures step_figures(const PlannedRun& run,
                         std::int64_t most_memory = std::numeric_limits<std::int64_t>::max());

}  // namespace lockstep
