#pragma once

#include <string>
#include <vector>

#include "core/pipeline/simulator.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// The actions and messages of one step as recorded in a trace; times count from the start of the
/// first action.
struct ObservedStep {
  std::vector<std::vector<TimedAction>> actions;  ///< parallel to Schedule::actions
  std::vector<TimedMessage> messages;             ///< in the order of the simulation's messages
};
/// Finds the actions and messages of a simulated schedule in a step of a trace. Throws a RunError
/// that names the first action or message that is missing or out of order in the step.
ObservedStep observed_step(const Timeline& timeline, int step, const Schedule& schedule,
                           const Simulation& simulation);

/// How far an observed step deviates from the simulated one.
struct StepDifference {
  std::size_t actions = 0, messages = 0;  ///< how many were compared, each by its start and its end
  Picoseconds largest = 0;
  std::string where;  ///< the action or message with the largest difference; "" if all are equal
};
StepDifference difference_of(const Schedule& schedule, const Simulation& simulation,
                             const ObservedStep& observed);

/// "largest difference 0 ps over 64 actions and 96 messages"; also says where it is, unless it is
/// 0.
std::string difference_words(const StepDifference& difference);

}  // namespace lockstep::viz
