#pragma once

#include <string>
#include <vector>

#include "core/pipeline/simulator.h"
#include "core/timeline/timeline.h"

namespace lockstep::viz {

/// The actions and messages of one step, as a trace has them, from the start of the first action.
struct ObservedStep {
  std::vector<std::vector<TimedAction>> actions;  ///< parallel to Schedule::actions
  std::vector<TimedMessage> messages;             ///< in the order of the simulation's
};
/// Finds the actions and messages of a simulated schedule in a step of a trace. Throws RunError
/// naming the first action or message that the step lacks, or that is in another order there.
ObservedStep observed_step(const Timeline& timeline, int step, const Schedule& schedule,
                           const Simulation& simulation);

/// How far an observed step is from the simulated one.
struct StepDifference {
  std::size_t actions = 0, messages = 0;  ///< compared: the start and the end of each
  Picoseconds largest = 0;
  std::string where;  ///< the action or message with the largest difference; "" if all are equal
};
StepDifference difference_of(const Schedule& schedule, const Simulation& simulation,
                             const ObservedStep& observed);

/// "largest difference 0 ps over 64 actions and 96 messages"; if there is one, also says where.
std::string difference_words(const StepDifference& difference);

}  // namespace lockstep::viz
