#pragma once

#include <optional>

#include "core/run/prediction.h"
#include "core/trace/timeline.h"

namespace lockstep {

/// Where a step's bubble comes from, in parts that add up: each is what the simulator finds when
/// one more thing is as it was observed.
struct BubbleParts {
  double formula = 0;  ///< equal stages, free messages
  double uneven = 0;   ///< each stage's forward and backward take their own time (the fastest seen)
  double slow =
      0;  ///< each action takes the time that it took: on a wall clock, waiting for a core
  double messages = 0;  ///< and what is left: messages, and waiting for them
  double observed = 0;
  Picoseconds window = 0;  ///< of that step: from the first start to the last end of its actions
};

/// Takes a phase's bubble apart, for the step whose bubble is the median. Nothing where the trace
/// has no pipeline actions for it or no formula was given.
std::optional<BubbleParts> bubble_parts(const Timeline& timeline, const Phase& phase,
                                        const Predicted& predicted);

}  // namespace lockstep
