#pragma once

#include <limits>
#include <map>
#include <string>

#include "viz/read/timeline/message_times.h"
#include "viz/read/timeline/step_account.h"
#include "viz/read/timeline/step_graph.h"

namespace lockstep {

/// When a step's pipeline actions begin and end.
struct PipelineActions {
  Picoseconds first_start = std::numeric_limits<Picoseconds>::max();
  Picoseconds last_end = std::numeric_limits<Picoseconds>::min();
  bool any() const { return first_start <= last_end; }
  void add(const Interval& time) {
    first_start = std::min(first_start, time.start);
    last_end = std::max(last_end, time.end);
  }
};

/// The inputs for dividing a rank's step into pieces.
struct StepOfRank {
  const Timeline& timeline;
  const RankTimeline& rank;
  const StepWindow& window;                   ///< of the step on all ranks
  Interval time;                              ///< of the step on this rank
  const std::map<int, LaneTraffic>& traffic;  ///< by lane of this rank
  const PipelineActions &all, &own;           ///< of all ranks, and of this one
  const StepGraph& graph;                     ///< what each wait for another stage waits for
};

/// Divides a rank's step into pieces. Numbers axes in their order of appearance, and adds their
/// names to `axes`. Leaves the sums to step_account().
RankAccount divide_step(const StepOfRank& step, std::map<std::string, int>& axes);

}  // namespace lockstep
