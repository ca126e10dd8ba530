#include "viz/data/layout/open_spans.h"

#include <algorithm>

namespace lockstep::viz {
namespace {

constexpr std::size_t most_seen = 4096;

}  // namespace

Picoseconds OpenSpans::end_of(const Timeline& timeline, const Lane& lane, const AnnouncedSpan& open,
                              bool live, Clock::time_point now) {
  const Picoseconds reached = std::max(open.span.end, timeline.end());
  if (!live || timeline.ended()) return open.span.end;
  if (timeline.run().clock != "wall") return reached;
  if (seen_.size() >= most_seen) seen_.clear();  // most of them have ended
  Seen& seen = seen_[{&lane, {open.span.start, open.span.name}}];
  if (seen.at == Clock::time_point{} || seen.announced != open.span.end)
    seen = {open.span.end, now};
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(now - seen.at).count();
  return std::max(reached, open.span.end + 1000 * static_cast<Picoseconds>(since));
}

}  // namespace lockstep::viz
