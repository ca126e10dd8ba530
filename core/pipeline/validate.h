#pragma once

#include "core/base/error.h"
#include "core/pipeline/schedule.h"

namespace lockstep {

/// The reasons why a schedule is invalid.
enum class ScheduleFault {
  too_few,         ///< fewer actions than stages times microbatches
  missing,         ///< a stage lacks an action of one of its microbatches
  wrong_stage,     ///< a rank runs an action of a stage that is not on it
  no_microbatch,   ///< there is no such microbatch
  backward_first,  ///< a backward runs before its forward
  weight_first,    ///< a weight gradient runs before its input gradient
  deadlock,
  other,
};

/// Thrown by validate() and check_actions().
struct InvalidSchedule : ScheduleError {
  InvalidSchedule(const std::string& what, ScheduleFault fault_)
      : ScheduleError(what), fault(fault_) {}
  ScheduleFault fault;
};

/// Throws InvalidSchedule naming the first fault found: an action that is out of range, missing,
/// duplicated or on the wrong rank; both B and I or W for the same stage and microbatch; a backward
/// before its forward or a weight gradient before its input gradient; a joint action that is not a
/// forward with an independent backward; or a deadlock, reported as a
/// cycle of actions that wait for each other. Any microbatch order is valid. All lessons run
/// backward passes in ascending order, so that their results are bitwise identical to those of a
/// single-device run. Takes time linear in the number of actions.
void validate(const Schedule& schedule);

/// Like validate(), except that it does not check for deadlock. If it returns, every (stage,
/// microbatch) has either F and then B, or F, I and then W, once each, all on the stage's rank.
void check_actions(const Schedule& schedule);

/// Checks the beginning of a schedule, in which each rank may stop after any action: throws
/// InvalidSchedule for everything that validate() rejects except missing actions, and for an action
/// whose input no action of the beginning produces. Does not check for deadlock.
void check_beginning(const Schedule& beginning);

}  // namespace lockstep
