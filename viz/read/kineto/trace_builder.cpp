#include "viz/read/kineto/trace_builder.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>
#include <utility>

#include "viz/read/timeline/analysis.h"
#include "viz/read/timeline/parse.h"

namespace lockstep::kineto {
namespace {

constexpr std::size_t most_tracks = 1 << 15;  // threads and streams
constexpr std::int64_t latest_origin = std::numeric_limits<std::int64_t>::max() / 4000;

/// Returns an event's kind, given its `cat`. Old versions of PyTorch capitalize some of them.
Event::Kind kind_of(std::string_view cat) {
  using Kind = Event::Kind;
  constexpr std::pair<std::string_view, Kind> kinds[] = {
      {"kernel", Kind::kernel},
      {"Kernel", Kind::kernel},
      {"gpu_memcpy", Kind::memory},
      {"gpu_memset", Kind::memory},
      {"Memcpy", Kind::memory},
      {"Memset", Kind::memory},
      {"cuda_runtime", Kind::runtime},
      {"cuda_driver", Kind::runtime},
      {"hip_runtime", Kind::runtime},
      {"Runtime", Kind::runtime},
      {"user_annotation", Kind::annotation},
      {"gpu_user_annotation", Kind::gpu_annotation},
      {"python_function", Kind::python},
  };
  for (const auto& [name, kind] : kinds)
    if (cat == name) return kind;
  return Kind::op;
}

bool on_gpu(Event::Kind kind) {
  return kind == Event::Kind::kernel || kind == Event::Kind::memory ||
         kind == Event::Kind::gpu_annotation;
}

std::string track_key(const EventFields& fields) {
  return fields.pid + '|' + fields.tid;
}

}  // namespace

std::uint32_t TraceBuilder::id_of(std::string_view name) {
  name = name.substr(0, longest_name);
  const auto [at, fresh] = ids_.try_emplace(std::string{name}, trace_.names.size());
  if (fresh) trace_.names.emplace_back(name);
  return static_cast<std::uint32_t>(at->second);
}

void TraceBuilder::skip(std::string_view why) {
  if (trace_.skipped++ == 0)
    trace_.first_skipped = "event " + std::to_string(seen_) + ": " + std::string{why};
}

void TraceBuilder::add_malformed() {
  ++seen_;
  skip("not an object");
}

void TraceBuilder::add(EventFields& fields) {
  ++seen_;
  if (fields.phase == "M") {
    if (fields.name == "thread_name") labels_[track_key(fields)] = fields.label;
    return;
  }
  const bool span = fields.phase == "X";
  const bool flow = (fields.phase == "s" || fields.phase == "f") &&
                    (fields.cat == "fwdbwd" || fields.cat == "forward_backward");
  // The profiler's own work is not part of the program.
  if ((!span && !flow) || fields.cat == "Trace" || fields.cat == "overhead") return;
  const auto start = time_of(fields.ts, true);
  const auto duration = span ? time_of(fields.dur, false) : Picoseconds{0};
  if (!start || !duration || *duration < 0 || *start + *duration > latest_time)
    return skip(span ? "the span has no valid time" : "the flow has no valid time");
  const Event::Kind kind = kind_of(fields.cat);
  const auto track = track_of(fields, span && on_gpu(kind));
  if (!track) return skip("the trace has too many threads and streams");
  if (flow) return add_flow(fields, {*track, *start});
  add_span(fields, *start, *start + *duration, *track, kind);
}

void TraceBuilder::add_span(EventFields& fields, Picoseconds start, Picoseconds end,
                            std::uint16_t track, Event::Kind kind) {
  Event& event = fields.event;
  event.start = start;
  event.end = end;
  event.kind = kind;
  event.track = track;
  event.name = id_of(fields.name);
  if (event.bytes < 0 && fields.elements && fields.element_bytes > 0)
    event.bytes = std::min(*fields.elements, most_bytes / 8) * fields.element_bytes;
  if (fields.communication) {
    event.communication = static_cast<std::int32_t>(trace_.communications.size());
    trace_.communications.push_back(*fields.communication);
  }
  trace_.events.push_back(event);
}

void TraceBuilder::add_flow(const EventFields& fields, const TrackTime& point) {
  const bool begins = fields.phase == "s";
  const auto [other, fresh] = flows_.try_emplace(fields.id, FlowEnd{begins, point});
  if (fresh) return;
  if (other->second.begins != begins)
    trace_.links.push_back(begins ? AutogradLink{point, other->second.point}
                                  : AutogradLink{other->second.point, point});
  flows_.erase(other);
}

/// Returns the track of an event; nothing if there are too many tracks.
std::optional<std::uint16_t> TraceBuilder::track_of(const EventFields& fields, bool gpu) {
  const std::string key = track_key(fields);
  if (const auto known = tracks_.find(key); known != tracks_.end()) {
    trace_.tracks[known->second].gpu |= gpu;
    return known->second;
  }
  if (trace_.tracks.size() == most_tracks) return {};
  const auto track = static_cast<std::uint16_t>(trace_.tracks.size());
  tracks_.emplace(key, track);
  track_keys_.push_back(key);
  trace_.tracks.push_back({{}, fields.thread.value_or(-1), gpu});
  return track;
}

/// Converts microseconds, as written, to picoseconds. Points in time count from the whole
/// microsecond of the first event.
std::optional<Picoseconds> TraceBuilder::time_of(std::string_view text, bool is_point) {
  text = trimmed(text);
  if (text.size() > 1 && text.front() == '"') text = text.substr(1, text.size() - 2);
  if (is_point && !origin_us_) {
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error != std::errc{} || whole > latest_origin || whole < -latest_origin) return {};
    origin_us_ = whole;
  }
  const auto time = parse_microseconds(text, is_point ? *origin_us_ : 0);
  if (!time || *time > latest_time / 2 || *time < earliest_time) return {};
  return time;
}

/// Returns the name of a stream, or that of a thread. PyTorch names most threads by their number
/// and the program, "thread 7709 (python)", which is shortened to "thread 7709".
std::string TraceBuilder::track_name(std::size_t index) const {
  const Track& track = trace_.tracks[index];
  const std::string id = track.tid >= 0 ? std::to_string(track.tid) : "?";
  if (track.gpu) return "stream " + id;
  const std::string numbered = "thread " + id;
  const auto label = labels_.find(track_keys_[index]);
  if (label == labels_.end() || label->second.empty()) return numbered;
  return label->second.starts_with(numbered) ? numbered : label->second;
}

void TraceBuilder::finish() {
  std::ranges::stable_sort(trace_.events, [](const Event& a, const Event& b) {
    return std::tie(a.start, b.end) < std::tie(b.start, a.end);
  });
  trace_.written_ns = origin_us_.value_or(0) * 1000;  // latest_origin prevents an overflow
  if (__builtin_add_overflow(trace_.written_ns, trace_.base_ns, &trace_.origin_ns))
    trace_.origin_ns = trace_.written_ns;
  for (std::size_t i = 0; i < trace_.tracks.size(); ++i) trace_.tracks[i].name = track_name(i);
}

}  // namespace lockstep::kineto
