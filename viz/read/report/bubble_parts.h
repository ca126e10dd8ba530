#pragma once

#include <optional>
#include <vector>

#include "core/plan/prediction.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// Divides a step's bubble into parts that add up to the observed share. Each part is the change in
/// the simulated bubble when one more quantity takes its observed value. All parts except the first
/// can be negative, because the bubble is the idle share of all ranks' time: a longer action fills
/// idle time on its own rank, which may outweigh the waiting that it causes on other ranks.
struct BubbleParts {
  double formula = 0;  ///< equal stages, free messages
  double uneven = 0;   ///< each stage's fastest forward and backward, instead of equal ones
  /// Each action's own duration, instead of its stage's fastest. Durations vary from one action to
  /// the next; on a busy machine, this is mostly because actions wait for a core.
  double actions = 0;
  double messages = 0;  ///< the rest: messages, and waiting for them
};

/// The bubble of a phase, as bubble() defines it.
struct ObservedBubble {
  std::optional<double> share;       ///< empty without pipeline actions in the trace
  int step = -1;                     ///< the step with the median bubble
  Picoseconds window = 0;            ///< from the start of its first action to the end of its last
  std::optional<BubbleParts> parts;  ///< empty if there is no formula or if actions are missing
};

/// `pipeline` lists the ranks of one pipeline in the order of its stages, and the parts refer to
/// their actions; empty means all ranks. If there are several pipelines, the share covers all of
/// them.
ObservedBubble observe_bubble(const Timeline& timeline, const Phase& phase,
                              const Predicted& predicted, const std::vector<int>& pipeline = {});

}  // namespace lockstep
