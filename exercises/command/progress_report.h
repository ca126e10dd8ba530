#pragma once

#include <string>
#include <vector>

#include "exercises/command/exercises.h"

namespace lockstep::exercises {

/// Returns the learner's progress as JSON: for each exercise its lesson, its state ("not started",
/// "started" or "solved"), the numbers of judged answers and of hints shown, the time at which it
/// was solved (UTC; null if unsolved or unknown), and, if `verdicts` (one per exercise) are given,
/// the verdict on the current answer ("right", "wrong", "no verdict" or "not started").
std::string progress_report(const Exercises& exercises,
                            const std::vector<std::string>& verdicts = {});

}  // namespace lockstep::exercises
