#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/data/explanations.h"
#include "viz/data/series.h"

namespace lockstep::viz {

/// Returns the stage whose actions make up at least half of a critical path, and their time on it.
std::optional<std::pair<int, Picoseconds>> pace_setter(const CriticalPath& path);

/// Explains a step's bubble in sentences: the idle time with its causes and the stage that sets the
/// pace, both if `explained` is not null, the internal bubble, and the communication between the
/// stages if there is any.
std::vector<std::string> bubble_sentences(const BubbleSeries::Point& point,
                                          const ExplainedStep* explained, std::size_t ranks);

/// Explains a step's communication in sentences: how long it takes, and how long compute stalls for
/// it. `point` must have communication.
std::vector<std::string> communication_sentences(const BubbleSeries::Point& point,
                                                 std::size_t ranks);

/// Names the straggler of a step that takes `length`, the collective that shows it, and about what
/// it costs.
std::string straggler_words(const Timeline& timeline, const Straggler& late, Picoseconds length);

/// Says how late a step's straggler enters a collective, if the span is one of its messages, or a
/// wait for it; otherwise "".
std::string late_words(const BubbleSeries::Point& point, const TimelineSpan& span);

}  // namespace lockstep::viz
