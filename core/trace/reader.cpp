#include "core/trace/reader.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "core/base/error.h"

namespace lockstep {
namespace {

namespace json = simdjson::ondemand;

constexpr std::int64_t picoseconds_per_microsecond = 1'000'000;
/// Times beyond this (46 days) are those of a calendar; the first of them becomes the origin.
constexpr std::int64_t calendar_microseconds = 4'000'000'000'000;
constexpr std::size_t file_chunk = 1 << 20;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// A key as it stands in the text, without the quotes; ours have no escapes.
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

double real_of(json::value& value) {
  double real = std::numeric_limits<double>::quiet_NaN();
  if (value.get_double().get(real) != simdjson::SUCCESS) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return real;
}

/// pid, tid and id are numbers, or (in traces of others) strings, which then begin with one or are
/// told apart by a hash.
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

std::optional<Category> own_category(std::string_view cat) {
  for (int i = 0; i < category_count; ++i) {
    if (cat == name_of(static_cast<Category>(i))) return static_cast<Category>(i);
  }
  return std::nullopt;
}

/// One event, gathered before it is known what it is: keys come in any order.
struct Event {
  std::string_view phase, name, cat;
  int pid = 0, tid = 0;
  std::uint64_t id = 0;
  Picoseconds at = 0, duration = 0;
  bool has_time = false;
  TimelineSpan span;
  std::string_view label;  ///< args.name
  std::array<std::int64_t, memory_category_count> bytes{};
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::int64_t spans = -1;
  std::optional<Picoseconds> opened;  ///< of an announcement: when the span began
  std::int64_t clock_offset = 0, clock_uncertainty = 0;
  RunInfo run;
  std::optional<Prediction> predicted;
};

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

void read_hello(json::value value, Event& event) {
  json::object args = value.get_object();
  for (json::field field : args) {
    const std::string_view key = key_of(field);
    json::value& entry = field.value();
    RunInfo& run = event.run;
    if (key == "run") run.run = text_of(entry);
    if (key == "lesson") run.lesson = text_of(entry);
    if (key == "device") run.device = text_of(entry);
    if (key == "launch") run.launch = text_of(entry);
    if (key == "clock") run.clock = text_of(entry);
    if (key == "cluster") run.cluster = text_of(entry);
    if (key == "ranks") run.ranks = small(integer_of(entry));
    if (key == "clock_offset_ns") event.clock_offset = integer_of(entry, 0);
    if (key == "clock_uncertainty_ns") event.clock_uncertainty = integer_of(entry, 0);
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

}  // namespace

std::optional<Picoseconds> parse_microseconds(std::string_view text, std::int64_t origin) {
  text = trimmed(text);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  std::int64_t whole = 0;
  std::int64_t fraction = 0;  // in picoseconds
  std::size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    if (whole > std::numeric_limits<std::int64_t>::max() / 10 - 10) return std::nullopt;
    whole = whole * 10 + (text[i] - '0');
  }
  if (i == 0) return std::nullopt;
  if (i < text.size() && text[i] == '.') {
    ++i;
    std::int64_t unit = picoseconds_per_microsecond / 10;
    for (bool rounded = false; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      if (unit > 0) {
        fraction += (text[i] - '0') * unit;
      } else if (!rounded) {
        fraction += text[i] >= '5' ? 1 : 0;
        rounded = true;
      }
      unit /= 10;
    }
  }
  if (i < text.size()) {  // an exponent, rare: precision is the writer's loss
    double real = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), real);
    if (error != std::errc{} || end != text.data() + text.size() || !(real < 9e18)) {
      return std::nullopt;
    }
    whole = static_cast<std::int64_t>(real);
    fraction = std::llround((real - static_cast<double>(whole)) * picoseconds_per_microsecond);
  }
  if (negative) {
    whole = -whole;
    fraction = -fraction;
  }
  whole -= origin;
  if (std::abs(whole) > std::numeric_limits<std::int64_t>::max() / 1'000'001) return std::nullopt;
  return whole * picoseconds_per_microsecond + fraction;
}

Category category_of(std::string_view cat, std::string_view name) {
  if (name.starts_with("nccl")) return Category::communication;
  if (const auto own = own_category(cat)) return *own;
  if (name.starts_with("PP:")) {
    switch (const auto at = name.find_first_of("FBIW", 3);
            at == std::string_view::npos ? ' ' : name[at]) {
      case 'F':
        return Category::forward;
      case 'B':
        return Category::backward;
      case 'I':
        return Category::backward_input;
      case 'W':
        return Category::backward_weight;
      default:
        break;
    }
  }
  return Category::kernel;
}

struct TraceReader::State {
  State(Timeline& to, Form as) : timeline(to), form(as) {}

  void take_line(const char* begin, std::size_t size);
  void take_document();
  void event(json::object object);
  void args(json::object object, Event& event);
  void apply(Event& event);
  Picoseconds time(json::value& value, bool is_point);
  void skip(std::string_view line, const char* why);

  Timeline& timeline;
  Form form;
  bool document = false;  ///< collecting, to be read as a whole
  json::parser parser;
  /// What is not understood yet, with room for the parser to read beyond. Until the first event is
  /// understood, all from the start of the file: it may be a document.
  std::string buffer;
  std::size_t next = 0;  ///< in the buffer: the first line not yet taken
  std::int64_t bytes = 0, lines = 0, seen = 0, malformed = 0;
  std::string first_malformed;
  std::int64_t origin = 0;  ///< microseconds
};

Picoseconds TraceReader::State::time(json::value& value, bool is_point) {
  const std::string_view text = value.raw_json_token();
  if (is_point && origin == 0) {
    std::int64_t whole = 0;
    std::from_chars(text.data(), text.data() + text.size(), whole);
    if (whole > calendar_microseconds) origin = whole;
  }
  const auto parsed = parse_microseconds(text, is_point ? origin : 0);
  if (!parsed) throw simdjson::simdjson_error(simdjson::NUMBER_ERROR);
  return *parsed;
}

void TraceReader::State::args(json::object object, Event& event) {
  TimelineSpan& span = event.span;
  for (json::field field : object) {
    const std::string_view key = key_of(field);
    json::value& value = field.value();
    if (key == "step") {
      span.step = small(integer_of(value));
    } else if (key == "stage") {
      span.stage = small(integer_of(value));
    } else if (key == "microbatch") {
      span.microbatch = small(integer_of(value));
    } else if (key == "bytes") {
      span.bytes = integer_of(value);
    } else if (key == "peer") {
      span.peer = small(integer_of(value));
    } else if (key == "layer") {
      span.layer = static_cast<std::int16_t>(integer_of(value));
    } else if (key == "seq") {
      span.sequence = small(integer_of(value));
    } else if (key == "group") {
      span.group = timeline.intern(text_of(value));
    } else if (key == "group_size") {
      span.group_size = small(integer_of(value));
    } else if (key == "algorithm") {
      const NameId id = timeline.intern(text_of(value));
      span.algorithm = static_cast<std::uint16_t>(id > 0xffff ? 0 : id);
    } else if (key == "name") {
      event.label = text_of(value);
    } else if (key == "loss") {
      event.loss = real_of(value);
    } else if (key == "spans") {
      event.spans = integer_of(value);
    } else if (key == "start") {
      event.opened = time(value, true);
    } else {
      for (int i = 0; i < memory_category_count; ++i) {
        if (key == name_of(static_cast<MemoryCategory>(i))) {
          event.bytes[static_cast<std::size_t>(i)] = integer_of(value, 0);
        }
      }
    }
  }
}

void TraceReader::State::event(json::object object) {
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
      event.at = time(value, true);
      event.has_time = true;
    } else if (key == "dur") {
      event.duration = time(value, false);
    } else if (key == "args") {
      json::object inner;
      if (event.name == "lockstep") {
        read_hello(value, event);
      } else if (event.name == "predicted") {
        read_predicted(value, event.predicted.emplace());
      } else if (value.get_object().get(inner) == simdjson::SUCCESS) {
        args(inner, event);
      }
    }
  }
  if (event.phase.empty()) throw simdjson::simdjson_error(simdjson::NO_SUCH_FIELD);
  apply(event);
}

void TraceReader::State::apply(Event& event) {
  const char phase = event.phase.front();
  TimelineSpan& span = event.span;
  switch (phase) {
    case 'X':
      if (!event.has_time || event.duration < 0) {
        throw simdjson::simdjson_error(simdjson::NO_SUCH_FIELD);
      }
      span.start = event.at;
      span.end = event.at + event.duration;
      span.name = timeline.intern(event.name);
      span.category = category_of(event.cat, event.name);
      timeline.add(event.pid, event.tid, span);
      break;
    case 's':
      timeline.flow_start(event.id, event.pid, event.tid, event.at);
      break;
    case 'f':
      timeline.flow_end(event.id, event.pid, event.tid, event.at);
      break;
    case 'C':
      if (event.name == "memory") {
        timeline.rank(event.pid).memory.push_back({event.at, event.bytes});
      } else if (event.name == "loss") {
        timeline.rank(event.pid).losses.push_back({event.at, event.loss});
      }
      break;
    case 'i':
      if (event.name == "end") {
        timeline.rank(event.pid).ended = true;
        timeline.rank(event.pid).spans_written = event.spans;
      } else if (event.name == "open") {
        span.start = event.opened.value_or(event.at);
        span.end = event.at;
        span.name = timeline.intern(event.label);
        span.category = event.cat.empty() ? Category::wait : category_of(event.cat, event.label);
        timeline.lane(event.pid, event.tid).announce(span);
      }
      break;
    case 'M':
      if (event.name == "lockstep") {
        RankTimeline& rank = timeline.rank(event.pid);
        rank.clock_offset_ns = event.clock_offset;
        rank.clock_uncertainty_ns = event.clock_uncertainty;
        timeline.run() = std::move(event.run);
        if (event.predicted) timeline.predict(std::move(*event.predicted));
      } else if (event.name == "predicted" && event.predicted) {
        timeline.predict(std::move(*event.predicted));
      } else if (event.name == "process_name") {
        timeline.rank(event.pid).name = event.label;
      } else if (event.name == "thread_name") {
        timeline.lane(event.pid, event.tid).set_name(std::string{event.label});
      }
      break;
    default:
      break;  // events of others that we have no use for
  }
  ++lines;
}

void TraceReader::State::skip(std::string_view line, const char* why) {
  ++malformed;
  if (!first_malformed.empty()) return;
  constexpr std::size_t shown = 80;
  first_malformed = "line " + std::to_string(seen) + ": " + why + ": " +
                    std::string{line.substr(0, shown)} + (line.size() > shown ? "..." : "");
}

/// `begin` must be readable for SIMDJSON_PADDING beyond `size`.
void TraceReader::State::take_line(const char* begin, std::size_t size) {
  ++seen;
  std::string_view line = trimmed({begin, size});
  if (line.empty() || line == "[" || line == "]" || line == "],") return;
  const std::string_view as_written = line;
  if (line.front() == '[') line = trimmed(line.substr(1));
  if (line.ends_with(',')) line.remove_suffix(1);
  if (line.ends_with("}]")) line.remove_suffix(1);
  try {
    const std::size_t readable = line.size() + simdjson::SIMDJSON_PADDING;
    json::document parsed = parser.iterate(line.data(), line.size(), readable);
    event(parsed.get_object());
  } catch (const simdjson::simdjson_error& error) {
    if (form == Form::guess && lines == 0) {
      document = true;
    } else {
      skip(as_written, error.what());
    }
  }
}

void TraceReader::State::take_document() {
  seen = 0;
  try {
    json::document parsed = parser.iterate(buffer.data(), buffer.size(), buffer.capacity());
    json::array events;
    if (parsed.type() == json::json_type::array) {
      events = parsed.get_array();
    } else {
      events = parsed["traceEvents"].get_array();
    }
    for (json::value one : events) {
      ++seen;
      json::object object;
      if (one.get_object().get(object) == simdjson::SUCCESS) {
        event(object);
      } else {
        skip("", "an event that is no object");
      }
    }
  } catch (const simdjson::simdjson_error& error) {
    if (lines > 0) {
      skip("", error.what());
      return;
    }
    // No document either: lines, the first of which is broken.
    form = Form::lines;
    seen = 0;
    for (std::size_t begin = 0; begin < buffer.size();) {
      const std::size_t end = std::min(buffer.find('\n', begin), buffer.size());
      take_line(buffer.data() + begin, end - begin);
      begin = end + 1;
    }
  }
}

TraceReader::TraceReader(Timeline& timeline, Form form)
    : state_(std::make_unique<State>(timeline, form)) {}
TraceReader::~TraceReader() = default;
TraceReader::TraceReader(TraceReader&&) noexcept = default;

void TraceReader::feed(std::string_view bytes) {
  State& state = *state_;
  state.bytes += static_cast<std::int64_t>(bytes.size());
  std::string& buffer = state.buffer;
  const std::size_t needed = buffer.size() + bytes.size() + simdjson::SIMDJSON_PADDING;
  if (buffer.capacity() < needed) buffer.reserve(std::max(needed, 2 * buffer.capacity()));
  std::size_t scan = buffer.size();
  buffer.append(bytes);
  while (!state.document) {
    const void* found = std::memchr(buffer.data() + scan, '\n', buffer.size() - scan);
    if (!found) break;
    const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - buffer.data());
    state.take_line(buffer.data() + state.next, end - state.next);
    scan = state.next = end + 1;
  }
  if (state.lines > 0 || state.form == Form::lines) {
    buffer.erase(0, state.next);
    state.next = 0;
  }
}

void TraceReader::finish() {
  State& state = *state_;
  if (!state.document && state.next < state.buffer.size()) {
    state.take_line(state.buffer.data() + state.next, state.buffer.size() - state.next);
  }
  if (state.document) {
    state.document = false;
    state.take_document();
  }
  state.buffer.clear();
  state.next = 0;
}

std::int64_t TraceReader::bytes() const {
  return state_->bytes;
}
std::int64_t TraceReader::lines() const {
  return state_->lines;
}
std::int64_t TraceReader::malformed() const {
  return state_->malformed;
}
const std::string& TraceReader::first_malformed() const {
  return state_->first_malformed;
}

std::vector<std::filesystem::path> trace_files(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return {path};
  if (!fs::is_directory(path, ignored)) {
    throw UsageError(path.string() +
                     ": no such trace; give a file, or a folder of a run such as "
                     "runs/latest");
  }
  if (fs::is_regular_file(path / "trace.json", ignored)) return {path / "trace.json"};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank") && name.ends_with(".json")) files.push_back(entry.path());
  }
  if (files.empty()) {
    throw UsageError(path.string() +
                     ": has neither trace.json nor rank*.json; give a trace file, "
                     "or a folder of a run such as runs/latest");
  }
  std::sort(files.begin(), files.end());
  return files;
}

ReadReport read_traces(const std::vector<std::filesystem::path>& paths, Timeline& timeline) {
  ReadReport report;
  for (const auto& path : paths) {
    for (const auto& file : trace_files(path)) {
      std::ifstream in(file, std::ios::binary);
      if (!in) throw UsageError(file.string() + ": can't be opened for reading");
      TraceReader reader{timeline};
      std::string chunk(file_chunk, '\0');
      while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
        reader.feed({chunk.data(), static_cast<std::size_t>(in.gcount())});
      }
      reader.finish();
      ++report.files;
      report.lines += reader.lines();
      report.malformed += reader.malformed();
      if (report.first_malformed.empty() && !reader.first_malformed().empty()) {
        report.first_malformed = file.filename().string() + ", " + reader.first_malformed();
      }
    }
  }
  timeline.settle();
  return report;
}

}  // namespace lockstep
