#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/prediction.h"
#include "core/text/console.h"
#include "viz/read/timeline/step_account.h"

namespace lockstep {

/// Where the time of a phase's steps goes (viz/read/timeline/step_account.h defines the parts).
struct ObservedSteps {
  std::string phase;
  StepAccount last;  ///< the phase's last step; without ranks if the timeline has none
  /// Means over ranks and steps, in seconds. Omits the first step of a phase if there are others,
  /// because it creates threads and buffers.
  struct Means {
    double step = 0;     ///< on the rank on which it takes longest
    double compute = 0;  ///< with the optimizer
    double exposed = 0;  ///< = transfer + latency + late_peer
    double idle = 0;     ///< the rest: bubble, other, and after the rank's own step
    double transfer = 0, latency = 0, late_peer = 0;
    double communication = 0;  ///< a lane of the rank carries a message
    double hidden = 0;         ///< the part of `communication` that overlaps with compute
  } means;
};

ObservedSteps observe_steps(const Timeline& timeline, const Phase& phase);

/// The table of where the time of each phase's last step goes: with one phase, a row per rank,
/// otherwise a row per phase with means over ranks. Below it, exposed communication by axis.
std::string where_it_goes(const std::vector<ObservedSteps>& phases, const Console& console,
                          bool modelled_clock);

}  // namespace lockstep
