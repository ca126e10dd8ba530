#include "core/kineto/reader.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/kineto/labels.h"
#include "core/timeline/analysis.h"
#include "core/timeline/parse.h"
#include "core/timeline/timeline.h"

namespace lockstep::kineto {

namespace json = simdjson::ondemand;

bool Trace::has_gpu() const {
  return std::ranges::any_of(tracks, &Track::gpu);
}

namespace {

constexpr std::size_t looked_at = 1 << 16;     // bytes in which is_kineto() searches
constexpr std::size_t longest_name = 1 << 10;  // bytes; templates of kernels can be longer
constexpr std::size_t most_tracks = 1 << 15;   // threads and streams
constexpr std::size_t most_group_ranks = 1 << 20;
constexpr std::int64_t longest_origin = std::numeric_limits<std::int64_t>::max() / 4000;

std::string_view key_of(json::field& field) {
  std::string_view key;
  return field.unescaped_key().get(key) ? std::string_view{} : key;
}

std::string_view text_of(json::value& value) {
  std::string_view text;
  return value.get_string().get(text) ? std::string_view{} : text;
}

/// Returns a number, also if it is written as text, as newer versions write some.
std::optional<std::int64_t> number_of(json::value& value) {
  json::json_type type;
  if (value.type().get(type)) return {};
  std::int64_t whole = 0;
  double real = 0;
  if (type == json::json_type::string) {
    const std::string_view text = trimmed(text_of(value));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error == std::errc{} && end == text.data() + text.size()) return whole;
    return {};
  }
  if (type != json::json_type::number) return {};
  if (!value.get_int64().get(whole)) return whole;
  if (!value.get_double().get(real) && std::abs(real) < 9e18)
    return static_cast<std::int64_t>(real);
  return {};
}

int small(std::optional<std::int64_t> number, int otherwise = -1) {
  const bool fits = number && *number >= 0 && *number <= std::numeric_limits<int>::max();
  return fits ? static_cast<int>(*number) : otherwise;
}

std::int64_t size_of(std::optional<std::int64_t> number) {
  return number && *number >= 0 ? std::min(*number, most_bytes) : -1;
}

/// Returns the number of elements of the tensors in nested lists of extents, such as
/// [[16, 192], [192]]; nothing if the value is no such list.
std::optional<std::int64_t> elements_in(json::value value, int depth = 0) {
  json::array list;
  if (depth > 8 || value.get_array().get(list)) return {};
  std::int64_t product = 1, sum = 0;
  bool any = false, extents = false;
  for (json::value each : list) {
    json::json_type type;
    if (each.type().get(type)) return {};
    if (type == json::json_type::array) {
      if (const auto inner = elements_in(each, depth + 1)) sum = plus(sum, *inner), any = true;
    } else if (const auto extent = number_of(each); extent && *extent >= 0) {
      if (__builtin_mul_overflow(product, *extent, &product)) return {};
      extents = any = true;
    }
  }
  if (!any) return {};
  return extents ? product : sum;
}

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

class Reader {
 public:
  explicit Reader(Trace& trace) : trace_(trace) { id_of(""); }

  void read(json::document& document) {
    json::object top = document.get_object();
    bool events = false;
    for (json::field field : top) {
      const std::string_view key = key_of(field);
      json::value& value = field.value();
      if (key == "traceEvents") {
        json::array list;
        if (value.get_array().get(list)) throw UsageError(trace_.file + ": traceEvents is no list");
        read_events(list);
        events = true;
      } else if (key == "distributedInfo") {
        read_distributed(value);
      } else if (key == "baseTimeNanoseconds") {
        trace_.base_ns = number_of(value).value_or(0);
      } else if (key == "host_name" || key == "hostname") {
        trace_.host = text_of(value).substr(0, longest_name);
      }
    }
    if (!events) throw UsageError(trace_.file + ": has no traceEvents");
    finish();
  }

 private:
  struct Pass {
    bool begun = false;
    Picoseconds at = 0;
    std::uint16_t track = 0;
  };
  /// The fields of an event, in whatever order they come.
  struct Fields {
    std::string_view phase, name, cat;
    std::string pid, tid;  ///< as written
    std::optional<std::int64_t> thread;
    std::string_view ts, dur, label;
    std::int64_t id = -1;
    Event event{};
    std::optional<Communication> communication;
    std::optional<std::int64_t> elements;
    std::int64_t element_bytes = 0;
  };

  std::uint32_t id_of(std::string_view name) {
    name = name.substr(0, longest_name);
    const auto [at, fresh] = ids_.try_emplace(std::string{name}, trace_.names.size());
    if (fresh) trace_.names.emplace_back(name);
    return static_cast<std::uint32_t>(at->second);
  }

  void skip(std::string_view why) {
    if (trace_.skipped++ == 0)
      trace_.first_skipped = "event " + std::to_string(seen_) + ": " + std::string{why};
  }

  void read_distributed(json::value& value) {
    json::object info;
    if (value.get_object().get(info)) return;
    for (json::field field : info) {
      const std::string_view key = key_of(field);
      json::value& entry = field.value();
      json::array groups;
      if (key == "rank") {
        trace_.rank = small(number_of(entry));
      } else if (key == "world_size") {
        trace_.world_size = small(number_of(entry));
      } else if (key == "pg_config" && !entry.get_array().get(groups)) {
        for (json::value group : groups) read_group(group);
      }
    }
  }

  /// Returns the ranks of "[0, 1]", as on-demand profiles write them; none if the list is shortened
  /// ("[0, 1, ..., 63]") or malformed.
  static std::vector<int> ranks_in(std::string_view text) {
    if (!text.starts_with('[') || !text.ends_with(']')) return {};
    text = text.substr(1, text.size() - 2);
    std::vector<int> ranks;
    for (const auto part : std::views::split(text, ',')) {
      const std::string_view word = trimmed({part.begin(), part.end()});
      int rank = -1;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rank);
      if (error != std::errc{} || end != word.data() + word.size() || rank < 0) return {};
      if (ranks.size() == most_group_ranks) return {};
      ranks.push_back(rank);
    }
    return ranks;
  }

  void read_group(json::value& value) {
    json::object fields;
    if (value.get_object().get(fields)) return;
    ProcessGroup group;
    for (json::field field : fields) {
      const std::string_view key = key_of(field);
      json::value& entry = field.value();
      json::array ranks;
      if (key == "pg_name") {
        group.name = text_of(entry).substr(0, longest_name);
      } else if (key == "pg_desc") {
        group.description = text_of(entry).substr(0, longest_name);
      } else if (key == "pg_size") {
        group.size = small(number_of(entry), 0);
      } else if (key == "ranks" && !entry.get_array().get(ranks)) {
        for (json::value rank : ranks)
          if (const int number = small(number_of(rank));
              number >= 0 && group.ranks.size() < most_group_ranks)
            group.ranks.push_back(number);
      } else if (key == "ranks") {
        group.ranks = ranks_in(text_of(entry));
      }
    }
    trace_.groups.push_back(std::move(group));
  }

  void read_events(json::array& list) {
    for (json::value each : list) {
      ++seen_;
      json::object object;
      if (each.get_object().get(object)) {
        skip("it is no object");
        continue;
      }
      Fields fields;
      for (json::field field : object) read_field(field, fields);
      apply(fields);
    }
  }

  void read_field(json::field& field, Fields& to) {
    const std::string_view key = key_of(field);
    json::value& value = field.value();
    if (key == "ph") {
      to.phase = text_of(value);
    } else if (key == "name") {
      to.name = text_of(value);
    } else if (key == "cat") {
      to.cat = text_of(value);
    } else if (key == "ts") {
      to.ts = value.raw_json_token();
    } else if (key == "dur") {
      to.dur = value.raw_json_token();
    } else if (key == "pid") {
      to.pid = trimmed(value.raw_json_token());
    } else if (key == "tid") {
      to.tid = trimmed(value.raw_json_token());
      to.thread = number_of(value);
    } else if (key == "id") {
      to.id = number_of(value).value_or(-1);
    } else if (json::object args; key == "args" && !value.get_object().get(args)) {
      for (json::field arg : args) read_arg(arg, to);
    }
  }

  void read_arg(json::field& field, Fields& to) {
    const std::string_view key = key_of(field);
    json::value& value = field.value();
    const auto communication = [&]() -> Communication& {
      return to.communication ? *to.communication : to.communication.emplace();
    };
    if (key == "correlation") {
      to.event.correlation = number_of(value).value_or(-1);
    } else if (key == "bytes") {
      to.event.bytes = size_of(number_of(value));
    } else if (key == "name") {
      to.label = text_of(value);
    } else if (key == "Collective name") {
      communication().operation = id_of(text_of(value));
    } else if (key == "Process Group Name") {
      communication().group = id_of(text_of(value));
    } else if (key == "Process Group Description") {
      communication().description = id_of(text_of(value));
    } else if (key == "Process Group Ranks") {
      communication().members = id_of(as_text(value));
    } else if (key == "Group size") {
      communication().group_size = small(number_of(value));
    } else if (key == "Seq") {
      communication().sequence = number_of(value).value_or(-1);
    } else if (key == "Comms Id") {
      communication().comms_id = id_of(as_text(value));
    } else if (key == "In msg nelems") {
      communication().elements_in = size_of(number_of(value));
    } else if (key == "Out msg nelems") {
      communication().elements_out = size_of(number_of(value));
    } else if (key == "dtype") {
      communication().dtype = id_of(text_of(value));
    } else if (key == "Src Rank") {
      communication().source = small(number_of(value));
    } else if (key == "Dst Rank") {
      communication().destination = small(number_of(value));
    } else if (key == "Input Dims") {
      if (json::array inputs; !value.get_array().get(inputs))
        for (json::value first : inputs) {
          to.elements = elements_in(first);
          break;
        }
    } else if (key == "Input type") {
      if (json::array types; !value.get_array().get(types))
        for (json::value first : types) {
          to.element_bytes = element_size(text_of(first));
          break;
        }
    } else if (key == "Concrete Inputs") {
      // c10d::send(tensors, group, destination, tag), c10d::recv_(tensors, group, source, tag)
      if (json::array inputs; !value.get_array().get(inputs)) {
        int position = 0;
        for (json::value each : inputs)
          if (position++ == 2) to.event.peer = small(number_of(each));
      }
    }
  }

  /// Returns text as it is, and a list or a number as written.
  std::string_view as_text(json::value& value) {
    json::json_type type;
    if (value.type().get(type)) return {};
    if (type == json::json_type::string) return text_of(value);
    if (type == json::json_type::array) {
      json::array list;
      std::string_view text;
      return value.get_array().get(list) || list.raw_json().get(text) ? std::string_view{} : text;
    }
    return type == json::json_type::number ? trimmed(value.raw_json_token()) : std::string_view{};
  }

  void apply(Fields& fields) {
    if (fields.phase == "M") {
      if (fields.name == "thread_name") labels_[fields.pid + '|' + fields.tid] = fields.label;
      return;
    }
    const bool span = fields.phase == "X";
    const bool pass = (fields.phase == "s" || fields.phase == "f") &&
                      (fields.cat == "fwdbwd" || fields.cat == "forward_backward");
    // The profiler's own rows have pids such as "Spans".
    if ((!span && !pass) || fields.cat == "Trace" || fields.cat == "overhead") return;
    const auto start = time_of(fields.ts, true);
    const auto duration = span ? time_of(fields.dur, false) : Picoseconds{0};
    if (!start || !duration || *duration < 0 || *start + *duration > latest_time)
      return skip(span ? "a span without a valid time" : "a flow without a valid time");
    const Event::Kind kind = kind_of(fields.cat);
    const auto track = track_of(fields, span && on_gpu(kind));
    if (!track) return skip("it belongs to one thread too many");
    if (pass) return add_pass(fields, *start, *track);
    Event& event = fields.event;
    event.start = *start;
    event.end = *start + *duration;
    event.kind = kind;
    event.track = *track;
    event.name = id_of(fields.name);
    if (event.bytes < 0 && fields.elements && fields.element_bytes > 0)
      event.bytes = size_of(std::min(*fields.elements, most_bytes / 8) * fields.element_bytes);
    if (fields.communication) {
      event.communication = static_cast<std::int32_t>(trace_.communications.size());
      trace_.communications.push_back(*fields.communication);
    }
    trace_.events.push_back(event);
  }

  std::optional<std::uint16_t> track_of(const Fields& fields, bool gpu) {
    const std::string key = fields.pid + '|' + fields.tid;
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

  void add_pass(const Fields& fields, Picoseconds at, std::uint16_t track) {
    Pass& pass = passes_[fields.id];
    const bool begins = fields.phase == "s";
    if (pass.at == 0 && pass.track == 0 && !pass.begun) {
      pass = {begins, at, track};
      return;
    }
    if (pass.begun != begins) {
      trace_.passes.push_back(begins ? ForwardBackward{at, pass.at, track, pass.track}
                                     : ForwardBackward{pass.at, at, pass.track, track});
    }
    passes_.erase(fields.id);
  }

  /// Returns microseconds as picoseconds since the first event's whole microsecond.
  std::optional<Picoseconds> time_of(std::string_view text, bool is_point) {
    text = trimmed(text);
    if (text.size() > 1 && text.front() == '"') text = text.substr(1, text.size() - 2);
    if (is_point && !origin_us_) {
      std::int64_t whole = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
      if (error != std::errc{} || whole > longest_origin || whole < -longest_origin) return {};
      origin_us_ = whole;
    }
    const auto time = parse_microseconds(text, is_point ? *origin_us_ : 0);
    if (!time || *time > latest_time / 2 || *time < earliest_time) return {};
    return time;
  }

  void finish() {
    std::ranges::stable_sort(trace_.events, [](const Event& a, const Event& b) {
      return std::tie(a.start, b.end) < std::tie(b.start, a.end);
    });
    trace_.written_ns = origin_us_.value_or(0) * 1000;  // longest_origin is small enough
    if (__builtin_add_overflow(trace_.written_ns, trace_.base_ns, &trace_.origin_ns))
      trace_.origin_ns = trace_.written_ns;
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) {
      Track& track = trace_.tracks[i];
      const std::string id = track.tid >= 0 ? std::to_string(track.tid) : "?";
      const auto label = labels_.find(track_keys_[i]);
      // PyTorch appends the name of the program: "thread 7709 (python)".
      track.name = (track.gpu ? "stream " : "thread ") + id;
      if (track.gpu || label == labels_.end() || label->second.empty()) continue;
      if (!label->second.starts_with(track.name)) track.name = label->second;
    }
  }

  Trace& trace_;
  std::unordered_map<std::string, std::size_t> ids_;
  std::unordered_map<std::string, std::uint16_t> tracks_;
  std::vector<std::string> track_keys_;
  std::unordered_map<std::string, std::string> labels_;  ///< of threads, by pid and tid
  std::unordered_map<std::int64_t, Pass> passes_;        ///< flows with one end
  std::optional<std::int64_t> origin_us_;
  std::int64_t seen_ = 0;
};

}  // namespace

bool is_kineto(std::string_view document) {
  const std::string_view start = document.substr(0, looked_at);
  const auto has = [&](std::string_view key) { return start.find(key) != std::string_view::npos; };
  const std::string_view text = trimmed(start);
  return text.starts_with('{') && (has("\"schemaVersion\"") || has("\"deviceProperties\"") ||
                                   has("\"distributedInfo\"") || has("\"baseTimeNanoseconds\""));
}

Trace read_trace(std::string document, const std::string& file) {
  Trace trace;
  trace.file = file;
  try {
    json::parser parser;
    document.reserve(document.size() + simdjson::SIMDJSON_PADDING);
    json::document parsed = parser.iterate(document.data(), document.size(), document.capacity());
    Reader{trace}.read(parsed);
  } catch (const simdjson::simdjson_error& error) {
    throw UsageError(excerpt(file) + ": is no complete JSON document (" + error.what() +
                     "); perhaps it was cut off while PyTorch wrote it");
  }
  return trace;
}

}  // namespace lockstep::kineto
