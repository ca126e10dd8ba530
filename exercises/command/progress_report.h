#pragma once

#include <string>
#include <vector>

#include "exercises/command/exercises.h"

namespace lockstep::exercises {

/// Returns the learner's progress as JSON: for each exercise its lesson, its state ("not started",
/// "started" or "solved"), how many answers were judged and how many hints shown, when it was
/// solved (UTC; null if it is not, or if the time is unknown), and, if `verdicts` are given, one
/// for each exercise, the verdict on the present answer.
std::string progress_report(const Exercises& exercises,
                            const std::vector<std::string>& verdicts = {});

}  // namespace lockstep::exercises
