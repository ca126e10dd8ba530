#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "core/timeline/step_account.h"

namespace lockstep::viz {

/// Formats a duration with a suitable unit and about three digits: "3.25 ms".
std::string duration_words(double picoseconds);
std::string duration_words(std::integral auto picoseconds) {
  return duration_words(static_cast<double>(picoseconds));
}
/// Returns a spacing for the marks of an axis: 1, 2 or 5 times a power of ten, at least `least`.
double round_spacing(double least);
/// Formats a time on an axis with marks `spacing` apart: "12.5 ms".
std::string axis_words(double picoseconds, double spacing);
/// Formats a size with the terminal's units: "16.4 kB".
std::string bytes_words(double bytes);
std::string bytes_words(std::integral auto bytes) {
  return bytes_words(static_cast<double>(bytes));
}
/// Formats a fraction: "34.5 %" for 0.345.
std::string percent_words(double share);
/// Joins words to a list: "a", "a and b" or "a, b and c".
std::string list_words(const std::vector<std::string>& words);
/// Describes a span of a lane: "forward of microbatch 3 on stage 0", "send to rank 1", or its name.
/// The direction of a collective's message is that of its lane: "all_reduce 3 from rank 1"; if the
/// trace does not show it, "all_reduce 3 with rank 1".
std::string span_words(const Timeline& timeline, const RankTimeline& rank, const Lane& lane,
                       const TimelineSpan& span);

/// Names a step and its phase: "step 2, overlap".
std::string step_words(const Timeline& timeline, int step);

/// Formats the nonzero parts of exposed communication as means over `ranks`: "transfer 2.00 µs,
/// latency 27.0 µs".
std::string exposed_words(const Exposed& sum, double ranks);

}  // namespace lockstep::viz
