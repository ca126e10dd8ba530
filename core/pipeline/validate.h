#pragma once

#include "core/pipeline/schedule.h"

namespace lockstep {

/// Throws ScheduleError naming the first fault found: an action that is out of range, missing,
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

}  // namespace lockstep
