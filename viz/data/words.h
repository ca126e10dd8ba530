#pragma once

#include <string>
#include <vector>

#include "core/trace/analysis.h"
#include "core/trace/timeline.h"
#include "viz/data/viewport.h"

namespace lockstep::viz {

/// "3.25 ms": a length of time in the unit that suits it, with about three digits.
std::string duration_words(double picoseconds);
/// A time on an axis whose marks are `spacing` apart: "12.5 ms".
std::string axis_words(double picoseconds, double spacing);
/// "16.0 KiB".
std::string bytes_words(double bytes);
/// "forward of microbatch 3 on stage 0", "send to rank 1", or the name itself.
std::string span_words(const Timeline& timeline, const TimelineSpan& span);

/// "transfer 2.00 µs, latency 27.0 µs": the parts of exposed communication that are not zero, as
/// means over `ranks`.
std::string exposed_words(const StepParts& sum, double ranks);

/// What the cursor is on.
struct Finding {
  enum class Kind { nothing, span, folded, idle };
  Kind kind = Kind::nothing;
  const RankTimeline* rank = nullptr;
  const Lane* lane = nullptr;
  TimelineSpan span{};  ///< of kind span; of idle: only start and end
  int count = 0;        ///< of folded: spans
  double cover = 0;     ///< of folded: how full
  bool open = false;    ///< the span is still running
};

/// What a lane shows in `band` (and below it) at `time`; spans and gaps within `tolerance`
/// (a pixel, say) of it are found too, and where several spans lie that close it is a fold.
Finding find_at(const RankTimeline& rank, const Lane& lane, Band band, double time,
                double tolerance);

/// The lines that explain a finding: its title first, then facts.
std::vector<std::string> finding_words(const Timeline& timeline, const Finding& finding);

/// Why a rank was idle in a gap: "waiting for a message from rank 1"; empty if nothing tells.
std::string idle_reason(const Timeline& timeline, int rank, Picoseconds start, Picoseconds end);

}  // namespace lockstep::viz
