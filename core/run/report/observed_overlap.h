#pragma once

#include <string>

#include "core/plan/prediction.h"
#include "core/timeline/timeline.h"

namespace lockstep {

/// How the ranks spent their time in a phase, in seconds per step: means over ranks and steps.
/// analysis.h defines the parts.
struct ObservedOverlap {
  std::string phase;
  double communication = 0;  ///< time in which a lane of the rank carries a message
  double hidden = 0;         ///< the part of `communication` that overlaps with compute
  /// StepParts: step = compute + exposed + idle, exposed = transfer + latency + late_peer.
  double step = 0, compute = 0, exposed = 0, idle = 0;
  double transfer = 0, latency = 0, late_peer = 0;
};

/// Omits the first step of a phase if there are others, because it creates threads and buffers.
ObservedOverlap observe_overlap(const Timeline& timeline, const Phase& phase);

}  // namespace lockstep
