#pragma once

#include <string>
#include <vector>

#include "viz/read/timeline/memory_breakdown.h"

namespace lockstep::viz {

/// Describes the contents of a rank's memory at a time: a title, and a line for each category,
/// followed by the largest kinds of tensors in it, with their layers. If the trace contains no
/// kinds, lists only the categories. `origin` is the time that the views show as 0. Empty before
/// the first sample.
std::vector<std::string> memory_words_at(const Timeline& timeline, const RankTimeline& rank,
                                         Picoseconds at, Picoseconds origin);
/// Describes the contents of a rank's memory at its peak in a step. If the trace contains no kinds,
/// lists the categories of the highest sample.
std::vector<std::string> memory_words_at_peak(const Timeline& timeline, const RankTimeline& rank,
                                              int step);

}  // namespace lockstep::viz
