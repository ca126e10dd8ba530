#pragma once

#include <simdjson.h>

#include <cstdint>
#include <stdexcept>

#include "core/trace/timeline.h"

namespace lockstep {

/// An object that is JSON but no event, and why; what follows it can still be read.
struct EventError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Understands one event of a trace at a time, and puts it into a timeline. For the reader, which
/// finds the events: it is the only one that needs to see the parser's types.
class EventReader {
 public:
  explicit EventReader(Timeline& timeline) : timeline_(timeline) {}

  /// Throws EventError, or simdjson_error where this is no JSON; the timeline is as it was then.
  void take(simdjson::ondemand::object object);

 private:
  struct Event;
  void read_args(simdjson::ondemand::object object, Event& event);
  void apply(Event& event);
  void apply_metadata(Event& event);
  Picoseconds time(simdjson::ondemand::value& value, bool is_point, Event& event);

  Timeline& timeline_;
  std::int64_t origin_ = 0;  ///< microseconds, taken off times that are a calendar's
};

}  // namespace lockstep
