#pragma once

#include <optional>

#include "core/plan/prediction.h"
#include "core/trace/timeline.h"

namespace lockstep {

/// Where a step's bubble comes from, in parts that add up to the observed share: each is what the
/// simulator finds when one more thing is as it was observed.
struct BubbleParts {
  double formula = 0;  ///< equal stages, free messages
  double uneven = 0;   ///< each stage's forward and backward take their own time (the fastest seen)
  double slow =
      0;  ///< each action takes the time that it took: on a wall clock, waiting for a core
  double messages = 0;  ///< and what is left: messages, and waiting for them
};

/// The bubble of a phase: of the step whose bubble is the median.
struct ObservedBubble {
  std::optional<double> share;       ///< nothing without pipeline actions in the trace
  Picoseconds window = 0;            ///< from the step's first start to its last end of actions
  std::optional<BubbleParts> parts;  ///< nothing without a formula, or where actions are missing
};

ObservedBubble observe_bubble(const Timeline& timeline, const Phase& phase,
                              const Predicted& predicted);

}  // namespace lockstep
