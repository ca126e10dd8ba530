#include "viz/read/timeline/reader.h"

#include <simdjson.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "viz/read/timeline/event.h"
#include "viz/read/timeline/parse.h"

namespace lockstep {

namespace json = simdjson::ondemand;

namespace {

constexpr std::size_t file_chunk = 1 << 20;
constexpr std::size_t longest_line = 1 << 20;  ///< limit for streams, whose source is not trusted

}  // namespace

struct TraceReader::State {
  State(Timeline& timeline, Form as) : events(timeline), form(as) {}

  void take_line(const char* begin, std::size_t size);
  void take_document();
  void event(json::object object, std::string_view line = {}) {
    events.take(object, line);
    ++lines;
  }
  void skip(std::string_view line, const char* why);

  EventReader events;
  Form form;
  bool document = false;  ///< whether to collect the whole file as one document
  bool too_long = false;  ///< whether the current line is too long and was counted as malformed
  json::parser parser;
  /// Unparsed input, with padding for the parser. Until the first event is parsed, the buffer holds
  /// the file from its beginning, because the file may be one document.
  std::string buffer;
  std::size_t next = 0;  ///< offset in the buffer of the first unprocessed line
  std::int64_t bytes = 0, seen = 0, malformed = 0;
  std::int64_t lines = 0;  ///< events parsed
  std::string first_malformed;
};

void TraceReader::State::skip(std::string_view line, const char* why) {
  ++malformed;
  if (!first_malformed.empty()) return;
  std::string_view reason = why;
  if (reason.ends_with('.')) reason.remove_suffix(1);
  first_malformed =
      "line " + std::to_string(seen) + ": " + std::string{reason} + ": " + excerpt(line);
}

/// `begin` must be readable for SIMDJSON_PADDING bytes beyond `size`.
void TraceReader::State::take_line(const char* begin, std::size_t size) {
  ++seen;
  std::string_view line = trimmed({begin, size});
  if (line.empty() || line == "[" || line == "]" || line == "],") return;
  const std::string_view as_written = line;
  if (line.front() == '[') line = trimmed(line.substr(1));
  if (line.ends_with(',')) line.remove_suffix(1);
  if (line.ends_with("}]")) line.remove_suffix(1);
  if (events.take_repeated(line)) {
    ++lines;
    return;
  }
  try {
    const std::size_t readable = line.size() + simdjson::SIMDJSON_PADDING;
    json::document parsed = parser.iterate(line.data(), line.size(), readable);
    event(parsed.get_object(), line);
  } catch (const std::exception& error) {  // invalid JSON, or not an event
    const bool opens = as_written.front() == '{' || as_written.front() == '[';
    if (form == Form::guess && lines == 0 && opens) {
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
    json::array all;
    if (parsed.type() == json::json_type::array) {
      all = parsed.get_array();
    } else {
      all = parsed["traceEvents"].get_array();
    }
    for (json::value one : all) {
      ++seen;
      json::object object;
      if (one.get_object().get(object) != simdjson::SUCCESS) {
        skip("", "an event that is no object");
        continue;
      }
      try {
        event(object);
      } catch (const EventError& error) {
        skip("", error.what());
      }
    }
  } catch (const simdjson::simdjson_error& error) {
    if (lines > 0) {
      skip("", error.what());
      return;
    }
    // The input is not a document either, so treat it as lines, of which the first is malformed.
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
    if (!std::exchange(state.too_long, false)) {
      state.take_line(buffer.data() + state.next, end - state.next);
    }
    scan = state.next = end + 1;
  }
  if (state.lines > 0 || state.form == Form::lines) {
    buffer.erase(0, state.next);
    state.next = 0;
  }
  if (state.form == Form::lines && (state.too_long || buffer.size() > longest_line)) {
    if (!std::exchange(state.too_long, true)) {
      ++state.seen;
      state.skip(buffer, "a line without an end");
    }
    buffer.clear();
  }
}

void TraceReader::finish() {
  State& state = *state_;
  if (!state.document && !state.too_long && state.next < state.buffer.size()) {
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
                     ": no such trace; give a file, or a run's folder such as "
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
                     "or a run's folder such as runs/latest");
  }
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

/// The result of reading one file, on one thread.
struct FileRead {
  Timeline timeline;
  std::int64_t lines = 0, malformed = 0;
  std::string first_malformed;
  std::exception_ptr failure;
};

void read_file(const std::filesystem::path& file, FileRead& read) try {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw UsageError(file.string() + ": can't be opened for reading");
  TraceReader reader{read.timeline};
  std::string chunk(file_chunk, '\0');
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    reader.feed({chunk.data(), static_cast<std::size_t>(in.gcount())});
  }
  reader.finish();
  read.timeline.settle();
  read.lines = reader.lines();
  read.malformed = reader.malformed();
  if (!reader.first_malformed().empty())
    read.first_malformed = excerpt(file.filename().string()) + ", " + reader.first_malformed();
} catch (...) {
  read.failure = std::current_exception();
}

}  // namespace

ReadReport read_traces(const std::vector<std::filesystem::path>& paths, Timeline& timeline) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) std::ranges::copy(trace_files(path), std::back_inserter(files));
  // Each core reads one file at a time into a timeline of its own; then the timelines are joined in
  // order.
  std::vector<FileRead> reads(files.size());
  std::atomic<std::size_t> next{0};
  const auto read_some = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) read_file(files[i], reads[i]);
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
    for (std::size_t i = 1; i < std::min(cores, files.size()); ++i) helpers.emplace_back(read_some);
    read_some();
  }
  ReadReport report;
  for (FileRead& read : reads) {
    if (read.failure) std::rethrow_exception(read.failure);
    timeline.absorb(std::move(read.timeline));
    ++report.files;
    report.lines += read.lines;
    report.malformed += read.malformed;
    if (report.first_malformed.empty()) report.first_malformed = read.first_malformed;
  }
  timeline.settle();
  return report;
}

}  // namespace lockstep
