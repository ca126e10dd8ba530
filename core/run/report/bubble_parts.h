#pragma once

#include <optional>

#include "core/plan/prediction.h"
#include "core/trace/timeline.h"

namespace lockstep {

/// Divides a step's bubble into parts that add up to the observed share: each is the change in the
/// simulated bubble when one more quantity is as observed. All but the first can be negative,
/// because the bubble is a share of rank-time: actions that take longer fill idle time on their own
/// rank, perhaps more than they make other ranks wait.
struct BubbleParts {
  double formula = 0;  ///< equal stages, free messages
  double uneven = 0;   ///< each stage's forward and backward have their own durations (the fastest
                       ///< seen)
  /// Each action has its own duration: an action does not always take equally long, on a busy
  /// machine mostly because it waits for a core.
  double actions = 0;
  double messages = 0;  ///< the rest: messages, and waiting for them
};

/// The bubble of a phase, taken from the step with the median bubble.
struct ObservedBubble {
  std::optional<double> share;  ///< empty without pipeline actions in the trace
  Picoseconds window = 0;  ///< from the start of the step's first action to the end of its last
  std::optional<BubbleParts> parts;  ///< empty without a formula, or if actions are missing
};

ObservedBubble observe_bubble(const Timeline& timeline, const Phase& phase,
                              const Predicted& predicted);

}  // namespace lockstep
