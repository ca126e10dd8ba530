#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "viz/read/kineto/trace.h"

namespace lockstep::kineto {

constexpr std::size_t longest_name = 1 << 10;  ///< bytes; longer kernel names are cut off

/// The fields of one entry of traceEvents. The keys may come in any order, so all are collected
/// before the entry is interpreted.
struct EventFields {
  std::string_view phase, name, cat;
  std::string_view ts, dur;            ///< as written
  std::string pid, tid;                ///< as written
  std::optional<std::int64_t> thread;  ///< the tid, if it is a number
  std::string_view label;              ///< args.name: for phase "M", the name of a thread
  std::int64_t id = -1;                ///< of a flow
  Event event{};                       ///< those of its fields that depend on no others
  std::optional<Communication> communication;
  std::optional<std::int64_t> elements;  ///< of an operator's first tensor
  std::int64_t element_bytes = 0;
};

/// Collects the events of a trace, and adds the tracks, names and times that they imply.
class TraceBuilder {
 public:
  explicit TraceBuilder(Trace& trace) : trace_(trace) { id_of(""); }

  /// Returns the index of a name in Trace::names.
  std::uint32_t id_of(std::string_view name);
  /// Adds the span, the flow end or the thread name that the fields describe. Counts malformed ones
  /// in Trace::skipped, and ignores entries of other kinds.
  void add(EventFields& fields);
  /// Counts an entry that is not an object as malformed.
  void add_malformed();
  /// Sorts the events, names the tracks and sets the origin. Call once, at the end.
  void finish();

 private:
  /// One end of a flow whose other end has not been read.
  struct FlowEnd {
    bool begins = false;
    TrackTime point;
  };

  void skip(std::string_view why);
  void add_span(EventFields& fields, Picoseconds start, Picoseconds end, std::uint16_t track,
                Event::Kind kind);
  void add_flow(const EventFields& fields, const TrackTime& point);
  std::optional<std::uint16_t> track_of(const EventFields& fields, bool gpu);
  std::optional<Picoseconds> time_of(std::string_view text, bool is_point);
  std::string track_name(std::size_t track) const;

  Trace& trace_;
  std::unordered_map<std::string, std::size_t> ids_;
  std::unordered_map<std::string, std::uint16_t> tracks_;  ///< by key (pid and tid)
  std::vector<std::string> track_keys_;                    ///< by track
  std::unordered_map<std::string, std::string> labels_;    ///< names of threads, by key
  std::unordered_map<std::int64_t, FlowEnd> flows_;        ///< by id
  std::optional<std::int64_t> origin_us_;  ///< whole microseconds, subtracted from all times
  std::int64_t seen_ = 0;                  ///< entries of traceEvents
};

}  // namespace lockstep::kineto
