#pragma once

#include <string>

#include "core/plan/prediction.h"
#include "core/trace/timeline.h"

namespace lockstep {

/// Communication of a phase against compute, in seconds of a rank and step: means over ranks and
/// steps (analysis.h has the definitions).
struct ObservedOverlap {
  std::string phase;
  double communication = 0;
  double exposed = 0;  ///< while the rank computes nothing
  double step = 0;     ///< how long a step takes
};

/// The first step of a phase, in which threads and buffers are made, is left out where there are
/// others.
ObservedOverlap observe_overlap(const Timeline& timeline, const Phase& phase);

}  // namespace lockstep
