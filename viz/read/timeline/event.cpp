#include "viz/read/timeline/event.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "viz/read/timeline/older.h"
#include "viz/read/timeline/parse.h"

namespace lockstep {

namespace json = simdjson::ondemand;

/// The fields of one event. They are collected before the event's type is known, because the keys
/// may be in any order.
struct EventReader::Event {
  std::string_view phase, name, cat;
  int pid = 0, tid = 0;
  std::uint64_t id = 0;
  Picoseconds at = 0, duration = 0;
  bool has_time = false;
  const char* trouble = nullptr;  ///< why valid JSON is not a valid event
  TimelineSpan span;
  std::string_view label;  ///< args.name
  std::array<std::int64_t, memory_category_count> bytes{};
  int memory_state = -1;
  struct State {
    int number = -1, step = -1;
    std::vector<MemoryPart> parts;
    std::vector<MemoryStates::Change> changes;
  };
  std::optional<State> state;  ///< of "memory state" and "memory at peak"
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::pair<NameId, double>> series;  ///< of a counter
  std::int64_t spans = -1;
  std::optional<Picoseconds> opened;  ///< for an announcement: the time at which the span began
  struct Hello {
    RunInfo run;
    int format = 1;
    std::int64_t clock_offset = 0, clock_uncertainty = 0;
  };
  std::optional<Hello> hello;
  std::optional<Prediction> predicted;
  std::string slices;
  std::optional<std::vector<int>> group;  ///< members of the group `label`
};

namespace {

/// Times larger than this (46 days) are calendar times; the first such time becomes the origin.
constexpr std::int64_t calendar_microseconds = latest_time / 1'000'000;
constexpr std::int64_t latest_calendar_microseconds = std::numeric_limits<std::int64_t>::max() / 2;
constexpr std::size_t longest_cluster_description = 1 << 16;
constexpr std::size_t longest_slices = 1 << 17;
constexpr std::size_t most_config = 64;      // entries
constexpr std::size_t longest_config = 512;  // bytes of an entry
constexpr std::size_t longest_kind = 64;     // bytes
constexpr std::size_t most_members = 1 << 16;

/// Returns a key as written, without quotes. Lockstep's own keys contain no escapes.
std::string_view key_of(json::field& field) {
  const char* begin = field.key().raw();
  const char* end = begin;
  while (*end != '"') ++end;
  return {begin, static_cast<std::size_t>(end - begin)};
}

std::string_view text_of(json::value& value) {
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? text : std::string_view{};
}

std::int64_t integer_of(json::value& value, std::int64_t otherwise = -1) {
  std::int64_t number = 0;
  if (value.get_int64().get(number) == simdjson::SUCCESS) return number;
  double real = 0;
  if (value.get_double().get(real) == simdjson::SUCCESS && std::abs(real) < 9e18) {
    return static_cast<std::int64_t>(real);
  }
  return otherwise;
}

int small(std::int64_t number) {
  return number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()
             ? -1
             : static_cast<int>(number);
}

/// Returns a stage or a layer; -1 if it does not fit.
std::int16_t as_16_bits(std::int64_t number) {
  const bool fits = number >= 0 && number <= std::numeric_limits<std::int16_t>::max();
  return static_cast<std::int16_t>(fits ? number : -1);
}

/// Returns a number of bytes, limited so that sums cannot overflow; `otherwise` if it is negative.
std::int64_t bytes_of(json::value& value, std::int64_t otherwise) {
  const std::int64_t number = integer_of(value, otherwise);
  return number < 0 ? otherwise : std::min(number, most_bytes);
}

/// Returns a time on a steady clock, limited so that sums cannot overflow.
std::int64_t nanoseconds_of(json::value& value) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  return std::clamp(integer_of(value, 0), -most, most);
}

double real_of(json::value& value) {
  double real = std::numeric_limits<double>::quiet_NaN();
  if (value.get_double().get(real) != simdjson::SUCCESS) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return real;
}

/// Parses pid, tid or id: a number, or (in traces from other tools) a string, which is replaced by
/// its leading number or by a hash.
std::uint64_t identifier_of(json::value& value) {
  json::json_type type;
  if (value.type().get(type) == simdjson::SUCCESS && type == json::json_type::string) {
    const std::string_view text = text_of(value);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end != text.data()) return number;
    return 1'000'000 + std::hash<std::string_view>{}(text) % 1'000'000;
  }
  std::uint64_t number = 0;
  if (value.get_uint64().get(number) == simdjson::SUCCESS) return number;
  return static_cast<std::uint64_t>(integer_of(value));
}

void read_predicted(json::value value, Prediction& predicted) {
  json::object object;
  if (value.get_object().get(object)) return;
  for (json::field field : object) {
    const std::string_view key = key_of(field);
    json::value& entry = field.value();
    if (key == "bubble") {
      if (const double bubble = real_of(entry); !std::isnan(bubble)) predicted.bubble = bubble;
    }
    if (key == "bubble_simulated") {
      if (const double bubble = real_of(entry); !std::isnan(bubble)) {
        predicted.bubble_simulated = bubble;
      }
    }
    if (key == "first_step") predicted.first_step = small(integer_of(entry, 0));
    if (key == "phase") predicted.phase = text_of(entry);
    if (key == "formula") predicted.formula = text_of(entry);
    if (key == "schedule") predicted.schedule = text_of(entry);
    if (key == "stages") predicted.stages = small(integer_of(entry));
    if (key == "microbatches") predicted.microbatches = small(integer_of(entry));
  }
}

/// Returns the text of an object, or "" if the value is not an object, or is too long.
std::string description_of(json::value& value, std::size_t longest) {
  json::object object;
  std::string_view text;
  if (value.get_object().get(object) || object.raw_json().get(text) || text.size() > longest) {
    return {};
  }
  return std::string{text};
}

/// Reads an object whose values are numbers, texts or lists, each as text.
void read_config(json::value& value, RunInfo& run) {
  json::object object;
  if (value.get_object().get(object)) return;
  for (json::field field : object) {
    std::string name{key_of(field)};
    json::value& entry = field.value();
    json::json_type type;
    if (entry.type().get(type)) return;
    std::string_view text;
    json::array list;
    if (type == json::json_type::array) {
      if (entry.get_array().get(list) || list.raw_json().get(text)) return;
    } else if (type == json::json_type::string) {
      text = text_of(entry);
    } else if (type == json::json_type::object) {
      continue;
    } else {
      text = entry.raw_json_token();
      text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    }
    if (run.config.size() < most_config && name.size() + text.size() <= longest_config)
      run.config.emplace_back(std::move(name), text);
  }
}

template <class Event>
void read_group(json::value value, Event& event) {
  json::object args = value.get_object();
  for (json::field field : args) {
    const std::string_view key = key_of(field);
    json::value& entry = field.value();
    json::array members;
    if (key == "name") event.label = text_of(entry);
    if (key != "ranks" || entry.get_array().get(members)) continue;
    event.group.emplace();
    for (json::value member : members)
      if (event.group->size() < most_members) event.group->push_back(small(integer_of(member)));
  }
}

template <class Event>
void read_hello(json::value value, Event& event) {
  json::object args = value.get_object();
  // From a value, because Clang can't use a nested class's default member initializers for
  // emplace().
  typename Event::Hello& hello = event.hello.emplace(typename Event::Hello{});
  RunInfo& run = hello.run;
  for (json::field field : args) {
    const std::string_view key = key_of(field);
    json::value& entry = field.value();
    if (key == "format") hello.format = small(integer_of(entry));
    if (key == "run") run.run = text_of(entry);
    if (key == "lesson") run.lesson = text_of(entry);
    if (key == "device") run.device = text_of(entry);
    if (key == "launch") run.launch = text_of(entry);
    if (key == "clock") run.clock = text_of(entry);
    if (key == "cluster") run.cluster = text_of(entry);
    if (key == "cluster_description")
      run.cluster_description = description_of(entry, longest_cluster_description);
    if (key == "config") read_config(entry, run);
    if (key == "ranks") run.ranks = small(integer_of(entry));
    if (key == "clock_offset_ns") hello.clock_offset = nanoseconds_of(entry);
    if (key == "clock_uncertainty_ns") hello.clock_uncertainty = nanoseconds_of(entry);
    if (key == "predicted") read_predicted(entry, event.predicted.emplace());
    json::object axes;
    if (key == "mesh" && entry.get_object().get(axes) == simdjson::SUCCESS) {
      for (json::field axis : axes) {
        std::string name{key_of(axis)};
        run.mesh.emplace_back(std::move(name), small(integer_of(axis.value())));
      }
    }
  }
}

/// Reads a part of the memory: its category, kind and layer.
std::optional<MemoryPart> read_part(json::value value, Timeline& timeline) {
  json::array fields;
  if (value.get_array().get(fields)) return {};
  MemoryPart part;
  bool known = false;
  int i = 0;
  for (json::value field : fields) {
    if (i == 0) {
      const std::string_view category = text_of(field);
      for (const MemoryCategory each : all_memory_categories)
        if (category == name_of(each)) {
          part.category = each;
          known = true;
        }
    } else if (i == 1) {
      part.kind = timeline.intern(text_of(field).substr(0, longest_kind));
    } else if (i == 2) {
      part.layer = std::max(small(integer_of(field)), -1);
    }
    ++i;
  }
  return known && i == 3 ? std::optional{part} : std::nullopt;
}

/// Reads the args of "memory state" and "memory at peak".
template <class State>
State read_state(json::value value, Timeline& timeline) {
  State state;
  json::object args;
  if (value.get_object().get(args)) return state;
  bool malformed = false;
  for (json::field field : args) {
    const std::string_view key = key_of(field);
    json::value& entry = field.value();
    json::array list;
    if (key == "state") {
      state.number = small(integer_of(entry));
    } else if (key == "step") {
      state.step = small(integer_of(entry));
    } else if (key == "parts" && entry.get_array().get(list) == simdjson::SUCCESS) {
      for (json::value each : list) {
        if (state.parts.size() == most_memory_parts) malformed = true;
        if (malformed) break;
        const auto part = read_part(each, timeline);
        malformed = !part;
        if (part) state.parts.push_back(*part);
      }
    } else if (key == "bytes" && entry.get_array().get(list) == simdjson::SUCCESS) {
      bool is_part = true;
      for (json::value each : list) {
        const std::int64_t number = integer_of(each);
        if (number < 0 || (is_part && (number >= static_cast<std::int64_t>(most_memory_parts) ||
                                       state.changes.size() == most_memory_parts)))
          malformed = true;
        if (malformed) break;
        if (is_part)
          state.changes.push_back({static_cast<std::uint32_t>(number), 0});
        else
          state.changes.back().bytes = number;
        is_part = !is_part;
      }
    }
  }
  if (malformed) state.number = -1;
  return state;
}

}  // namespace

Picoseconds EventReader::time(json::value& value, bool is_point, Event& event) {
  const std::string_view text = value.raw_json_token();
  if (is_point && origin_ == 0) {
    std::int64_t whole = 0;
    std::from_chars(text.data(), text.data() + text.size(), whole);
    if (whole > calendar_microseconds && whole < latest_calendar_microseconds) origin_ = whole;
  }
  const auto parsed = parse_microseconds(text, is_point ? origin_ : 0);
  if (!parsed || *parsed > latest_time || *parsed < earliest_time) {
    event.trouble = "a time that is none";
    return 0;
  }
  return *parsed;
}

void EventReader::read_args(json::object object, Event& event) {
  TimelineSpan& span = event.span;
  for (json::field field : object) {
    const std::string_view key = key_of(field);
    json::value& value = field.value();
    if (key == "step") {
      span.step = small(integer_of(value));
    } else if (key == "stage") {
      span.stage = as_16_bits(integer_of(value));
    } else if (key == "microbatch") {
      span.microbatch = small(integer_of(value));
    } else if (key == "bytes") {
      span.bytes = bytes_of(value, -1);
    } else if (key == "peer") {
      span.peer = small(integer_of(value));
    } else if (key == "layer") {
      span.layer = as_16_bits(integer_of(value));
    } else if (key == "seq") {
      span.sequence = small(integer_of(value));
    } else if (key == "sends" || key == "receives") {
      span.role = key == "sends" ? MessageRole::sends : MessageRole::receives;
      span.message = identifier_of(value);
    } else if (key == "carries") {
      const std::string_view contents = text_of(value);
      span.payload = contents == "activations" ? Payload::activations
                     : contents == "gradients" ? Payload::gradients
                                               : Payload::other;
    } else if (key == "group") {
      span.group = timeline_.intern(text_of(value));
    } else if (key == "group_size") {
      span.group_size = small(integer_of(value));
    } else if (key == "algorithm") {
      const NameId id = timeline_.intern(text_of(value));
      span.algorithm = static_cast<std::uint16_t>(id > 0xffff ? 0 : id);
    } else if (key == "name") {
      event.label = text_of(value);
    } else if (key == "loss") {
      event.loss = real_of(value);
    } else if (key == "spans") {
      event.spans = integer_of(value);
    } else if (key == "start") {
      event.opened = time(value, true, event);
    } else if (event.phase == "C" && event.name != "memory") {
      if (const double number = real_of(value); !std::isnan(number))
        event.series.emplace_back(timeline_.intern(key), number);
    } else {
      for (int i = 0; i < memory_category_count; ++i) {
        if (key == name_of(static_cast<MemoryCategory>(i))) {
          event.bytes[static_cast<std::size_t>(i)] = bytes_of(value, 0);
        }
      }
    }
  }
}

bool EventReader::take_repeated(std::string_view line) {
  const LineCache::Known* known = may_repeat() ? repeated_.find(line) : nullptr;
  if (known) timeline_.add(known->pid, known->tid, known->span);
  return known != nullptr;
}

void EventReader::take(json::object object, std::string_view line) {
  Event event;
  for (json::field field : object) {
    const std::string_view key = key_of(field);
    json::value& value = field.value();
    if (key == "name") {
      event.name = text_of(value);
    } else if (key == "ph") {
      event.phase = text_of(value);
    } else if (key == "cat") {
      event.cat = text_of(value);
    } else if (key == "pid") {
      event.pid = small(static_cast<std::int64_t>(identifier_of(value)));
    } else if (key == "tid") {
      event.tid = small(static_cast<std::int64_t>(identifier_of(value)));
    } else if (key == "id") {
      event.id = identifier_of(value);
    } else if (key == "ts") {
      event.at = time(value, true, event);
      event.has_time = true;
    } else if (key == "dur") {
      event.duration = time(value, false, event);
    } else if (key == "bind_id") {
      event.span.message = identifier_of(value);
    } else if (key == "flow_out" || key == "flow_in") {
      event.span.role = key == "flow_out" ? MessageRole::sends : MessageRole::receives;
    } else if (key == "state") {
      event.memory_state = small(integer_of(value));
    } else if (key == "args") {
      json::object inner;
      if (event.name == "lockstep") {
        read_hello(value, event);
      } else if (event.name == "predicted") {
        read_predicted(value, event.predicted.emplace());
      } else if (event.phase == "M" &&
                 (event.name == "memory state" || event.name == "memory at peak")) {
        event.state = read_state<Event::State>(value, timeline_);
      } else if (event.name == "slices" && event.phase == "M") {
        event.slices = description_of(value, longest_slices);
      } else if (event.name == "group" && event.phase == "M") {
        read_group(value, event);
      } else if (value.get_object().get(inner) == simdjson::SUCCESS) {
        read_args(inner, event);
      }
    }
  }
  if (event.phase.empty()) event.trouble = "no ph";
  if (event.phase == "X" && (!event.has_time || event.duration < 0)) {
    event.trouble = "a span without a time";
  }
  if (event.phase == "X" && event.at + event.duration > latest_time) {
    event.trouble = "a time that is none";
  }
  if (event.trouble) throw EventError(event.trouble);
  apply(event, line);
}

void EventReader::apply(Event& event, std::string_view line) {
  const char phase = event.phase.front();
  TimelineSpan& span = event.span;
  switch (phase) {
    case 'X':
      span.start = event.at;
      span.end = event.at + event.duration;
      span.name = timeline_.intern(event.name);
      span.category = category_of(event.cat, event.name);
      if (older_) {
        infer_facts(span, event.name, timeline_.lane(event.pid, event.tid));
        if (span.group != 0 && span.peer >= 0)
          timeline_.add_group(event.pid, span.group, {event.pid, span.peer});
      }
      timeline_.add(event.pid, event.tid, span);
      if (may_repeat()) repeated_.remember(line, {event.pid, event.tid, span});
      break;
    case 's':
      timeline_.flow_start(event.id, event.pid, event.tid, event.at);
      break;
    case 'f':
      timeline_.flow_end(event.id, event.pid, event.tid, event.at);
      break;
    case 'C':
      if (event.name == "memory") {
        const MemoryStates& states = timeline_.rank(event.pid).memory_states;
        const int state = states.has(event.memory_state) ? event.memory_state : -1;
        timeline_.sample_memory(event.pid, {event.at, event.bytes, state});
      } else if (event.name == "loss") {
        timeline_.rank(event.pid).losses.push_back({event.at, event.loss});
      } else if (span.step >= 0) {
        timeline_.rank(event.pid).counters.push_back({.at = event.at,
                                                      .name = timeline_.intern(event.name),
                                                      .step = span.step,
                                                      .layer = span.layer,
                                                      .series = std::move(event.series)});
      }
      break;
    case 'i':
      if (event.name == "end") {
        timeline_.end(event.pid, event.spans);
      } else if (event.name == "open" || event.name == "withdrawn") {
        span.start = event.opened.value_or(event.at);
        span.end = event.at;
        span.name = timeline_.intern(event.label);
        span.category = event.cat.empty() ? Category::wait : category_of(event.cat, event.label);
        if (older_) infer_facts(span, event.label, timeline_.lane(event.pid, event.tid));
        if (event.name == "open")
          timeline_.announce(event.pid, event.tid, span);
        else
          timeline_.withdraw(event.pid, event.tid, span);
      }
      break;
    case 'M':
      apply_metadata(event);
      break;
    default:
      break;  // events from other tools that the timeline does not use
  }
}

void EventReader::apply_metadata(Event& event) {
  if (event.name == "lockstep") {
    if (!event.hello) return;
    RankTimeline& rank = timeline_.rank(event.pid);
    rank.clock_offset_ns = event.hello->clock_offset;
    rank.clock_uncertainty_ns = event.hello->clock_uncertainty;
    older_ = event.hello->format < 2;
    timeline_.run() = std::move(event.hello->run);
    if (event.predicted) timeline_.predict(std::move(*event.predicted));
  } else if (event.name == "predicted" && event.predicted) {
    timeline_.predict(std::move(*event.predicted));
  } else if (event.name == "memory state" && event.state) {
    timeline_.rank(event.pid).memory_states.add(event.state->number, event.state->parts,
                                                event.state->changes);
  } else if (event.name == "memory at peak" && event.state) {
    timeline_.add_peak(event.pid, {event.state->step, event.state->number});
  } else if (event.name == "group" && event.group) {
    timeline_.add_group(event.pid, timeline_.intern(event.label), *event.group);
  } else if (event.name == "slices") {
    timeline_.rank(event.pid).slices = std::move(event.slices);
  } else if (event.name == "process_name") {
    timeline_.rank(event.pid).name = event.label;
  } else if (event.name == "thread_name") {
    timeline_.lane(event.pid, event.tid).set_name(std::string{event.label});
  }
}

}  // namespace lockstep
