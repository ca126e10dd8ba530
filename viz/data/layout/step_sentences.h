#pragma once

#include <string>
#include <vector>

#include "viz/data/layout/series.h"
#include "viz/data/step/mean_step.h"

namespace lockstep::viz {

/// Explains in sentences where a step's time goes: for each axis, the longest first, the exposed
/// and the hidden part of its communication; the parts of the bubble; and, for a pipeline, the
/// internal bubble.
std::vector<std::string> step_sentences(const BubbleSeries::Point& point);

/// Returns the sentence about a part of the mean step if that part is exposed communication or a
/// bubble; otherwise "".
std::string part_sentence(const StepAccount& account, const MeanPart& part);

/// Says how much of some communication compute hides: "12.3 % of it hidden", "none of it hidden".
std::string hidden_share_words(const Overlap& overlap);

}  // namespace lockstep::viz
