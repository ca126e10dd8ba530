#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/pipeline_analysis.h"
#include "core/trace/timeline.h"
#include "viz/data/viewport.h"

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
/// Joins words to a list: "a", "a and b" or "a, b and c".
std::string list_words(const std::vector<std::string>& words);
/// Describes a span: "forward of microbatch 3 on stage 0", "send to rank 1", or its name.
std::string span_words(const Timeline& timeline, const TimelineSpan& span);

/// Names a step and its phase: "step 2, overlap".
std::string step_words(const Timeline& timeline, int step);

/// Formats the nonzero parts of exposed communication as means over `ranks`: "transfer 2.00 µs,
/// latency 27.0 µs".
std::string exposed_words(const StepParts& sum, double ranks);

/// The object under the cursor.
struct Finding {
  enum class Kind { nothing, span, folded, idle };
  Kind kind = Kind::nothing;
  const RankTimeline* rank = nullptr;
  const Lane* lane = nullptr;
  TimelineSpan span{};                 ///< for `span`; for `idle`, only start and end are set
  int count = 0;                       ///< for `folded`: number of spans
  double cover = 0;                    ///< for `folded`: fill fraction
  bool open = false;                   ///< whether the span is still running
  std::optional<IdleInterval> idle{};  ///< for `idle` in a pipeline's step: its causes
};

/// Finds the object that a lane shows at `time` in `band`: its innermost span, a span that is still
/// open, or an idle gap. Spans within `tolerance` (say, one pixel) also match; more than two small
/// spans within `tolerance` count as a fold. Rows after `deepest` are not drawn at the cursor's
/// height, so they count only if no other row has a span, except for waits: a wait within an action
/// stops all of the action.
Finding find_at(const RankTimeline& rank, const Lane& lane, Band band, double time,
                double tolerance, std::size_t deepest = std::numeric_limits<std::size_t>::max());

/// Returns the lines of text that describe a finding: a title, then details.
/// Times count from `origin`.
std::vector<std::string> finding_words(const Timeline& timeline, const Finding& finding,
                                       Picoseconds origin = 0);

}  // namespace lockstep::viz
