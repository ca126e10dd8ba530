#pragma once

#include <string>
#include <vector>

#include "viz/data/series.h"

namespace lockstep::viz {

/// Explains a step's bubble in sentences: the idle time, the internal bubble, and the communication
/// between the stages if there is any.
std::vector<std::string> bubble_sentences(const BubbleSeries::Point& point, std::size_t ranks);

/// Explains a step's communication in sentences: how long it takes, and how long compute stalls for
/// it. `point` must have communication.
std::vector<std::string> communication_sentences(const BubbleSeries::Point& point,
                                                 std::size_t ranks);

/// Names the straggler of a step, the collective that shows it, and what it costs at most.
std::string straggler_words(const Timeline& timeline, const Straggler& late);

}  // namespace lockstep::viz
