#pragma once

#include <string>

#include "core/trace/format.h"
#include "tests/support/ranks.h"
#include "viz/read/timeline/reader.h"

namespace lockstep::testing {

/// Returns the timeline that the ranks of a run recorded on the modelled clock, read from its
/// trace.
inline Timeline timeline_of(const ThreadRun& run) {
  Timeline timeline;
  TraceReader reader{timeline, TraceReader::Form::lines};
  for (const auto& rank : run.ranks) {
    std::string text;
    for (const TraceEvent& event : rank->trace.drain()) append_line(text, rank->id, event);
    reader.feed(text);
  }
  timeline.run().clock = "modelled";
  timeline.settle();
  return timeline;
}

}  // namespace lockstep::testing
