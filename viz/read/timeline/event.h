#pragma once

#include <simdjson.h>

#include <cstdint>
#include <stdexcept>

#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// Thrown for valid JSON that is not a valid event; reading can continue with the next event.
struct EventError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Parses one trace event at a time into a timeline. TraceReader finds the events and passes them
/// to this class, which is separate so that only this header needs simdjson's types.
class EventReader {
 public:
  explicit EventReader(Timeline& timeline) : timeline_(timeline) {}

  /// Throws EventError, or simdjson_error if the text is not JSON. In both cases the timeline is
  /// unchanged.
  void take(simdjson::ondemand::object object);

 private:
  struct Event;
  void read_args(simdjson::ondemand::object object, Event& event);
  void apply(Event& event);
  void apply_metadata(Event& event);
  Picoseconds time(simdjson::ondemand::value& value, bool is_point, Event& event);

  Timeline& timeline_;
  std::int64_t origin_ = 0;  ///< microseconds, subtracted from calendar times
};

}  // namespace lockstep
