#pragma once

#include <simdjson.h>

#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "viz/read/timeline/line_cache.h"
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

  /// Reads a line that repeats an earlier one, which needs no parser (LineCache). Returns false if
  /// take() must read it.
  bool take_repeated(std::string_view line);
  /// Throws EventError, or simdjson_error if the text is not JSON. In both cases the timeline is
  /// unchanged. `line` is the object's text; "" if it is not a line of its own.
  void take(simdjson::ondemand::object object, std::string_view line = {});

 private:
  struct Event;
  void read_args(simdjson::ondemand::object object, Event& event);
  void apply(Event& event, std::string_view line);
  void apply_metadata(Event& event);
  /// Whether a span depends on its line alone, not on earlier lines.
  bool may_repeat() const { return !older_ && origin_ == 0; }
  Picoseconds time(simdjson::ondemand::value& value, bool is_point, Event& event);

  Timeline& timeline_;
  bool older_ = true;        ///< whether the trace does not say that it is of format 2 or later
  std::int64_t origin_ = 0;  ///< microseconds, subtracted from calendar times
  LineCache repeated_;
};

}  // namespace lockstep
