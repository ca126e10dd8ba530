#pragma once

#include <chrono>
#include <map>
#include <utility>

#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// The current ends of spans that are still running. A rank announces such a span only now and
/// then; in between, the span grows: on the wall clock with the time since its announcement
/// arrived, and on the modelled clock up to the latest time that any rank has reached.
class OpenSpans {
 public:
  using Clock = std::chrono::steady_clock;
  /// Returns the time up to which to draw an open span. `live` means that more events may arrive.
  Picoseconds end_of(const Timeline& timeline, const Lane& lane, const AnnouncedSpan& open,
                     bool live, Clock::time_point now);
  void clear() { seen_.clear(); }

 private:
  struct Seen {
    Picoseconds announced = 0;
    Clock::time_point at{};
  };
  std::map<std::pair<const Lane*, std::pair<Picoseconds, NameId>>, Seen> seen_;
};

}  // namespace lockstep::viz
