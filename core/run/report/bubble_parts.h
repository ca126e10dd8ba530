#pragma once

#include <optional>

#include "core/plan/prediction.h"
#include "core/trace/timeline.h"

namespace lockstep {

/// Where a step's bubble comes from, in parts that add up to the observed share: each is the change
/// that the simulator finds when one more thing is as it was observed. All but the first can be
/// negative, because the bubble is a share of rank-time: actions that take longer fill idle time
/// on their own rank, and may do so by more than they make others wait.
struct BubbleParts {
  double formula = 0;  ///< equal stages, free messages
  double uneven = 0;   ///< each stage's forward and backward take their own time (the fastest seen)
  /// Each action takes its own time: the same one does not always take as long, on a busy machine
  /// mostly because it waits for a core.
  double actions = 0;
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
