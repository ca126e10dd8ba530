#pragma once

#include <string>
#include <vector>

#include "core/timeline/memory_breakdown.h"

namespace lockstep::viz {

/// Describes what fills a rank's memory at a time: a title, and a line for each category, followed
/// by the largest kinds of tensors in it, with their layers. If the trace says nothing about kinds,
/// the categories alone. `origin` is the time that the views show as 0. Empty before the first
/// sample.
std::vector<std::string> memory_words_at(const Timeline& timeline, const RankTimeline& rank,
                                         Picoseconds at, Picoseconds origin);
/// Describes what fills a rank's memory at its peak in a step. If the trace does not tell, the
/// categories of the highest sample.
std::vector<std::string> memory_words_at_peak(const Timeline& timeline, const RankTimeline& rank,
                                              int step);

}  // namespace lockstep::viz
