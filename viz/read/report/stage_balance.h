#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/split_proposal.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// How equal a pipeline's stages are in a step, and whether another split would be better.
struct StageBalance {
  std::vector<Picoseconds> times;  ///< by stage: all its actions of one microbatch, on average
  int slowest = 0;                 ///< the stage that takes longest; of several, the first
  Picoseconds mean = 0;            ///< of `times`
  std::optional<SplitProposal> proposal{};  ///< unset if the stages' times can't be simulated
};

/// Measures the stages on the ranks of `pipeline` in a step of m microbatches. Returns nothing if
/// one of them has no actions in the timeline.
std::optional<StageBalance> observe_balance(const Timeline& timeline, int step,
                                            const std::vector<int>& pipeline, int stages,
                                            int microbatches);

/// Two lines: the stage that takes longest, and the better split, or why none is proposed.
std::string balance_lines(const StageBalance& seen, bool modelled_clock);

}  // namespace lockstep
