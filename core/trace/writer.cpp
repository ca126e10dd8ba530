#include "core/trace/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep {

namespace {

constexpr auto write_interval = std::chrono::milliseconds{10};

template <class... Args>
void put(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

void append_span(std::string& text, int rank, const TraceEvent& event) {
  const Span& span = event.span;
  const bool action = span.category <= Category::backward_weight && span.stage >= 0;
  if (action)
    put(text, R"({{"ph":"X","name":"PP:{}{}{}")", span.stage, letter_of(span.category),
        span.microbatch);
  else
    put(text, R"({{"ph":"X","name":"{}")", span.name);
  put(text, R"(,"cat":"{}","pid":{},"tid":{},"ts":)", name_of(span.category), rank, event.lane);
  append_microseconds(text, event.start);
  text += ",\"dur\":";
  append_microseconds(text, event.end - event.start);
  text += ",\"args\":{";
  const std::size_t empty = text.size();
  const auto number = [&](const char* key, std::int64_t value) {
    if (value >= 0) put(text, "{}\"{}\":{}", text.size() == empty ? "" : ",", key, value);
  };
  const auto word = [&](const char* key, const char* value) {
    if (value != nullptr) put(text, "{}\"{}\":\"{}\"", text.size() == empty ? "" : ",", key, value);
  };
  number("step", event.step);
  number("stage", span.stage);
  number("microbatch", span.microbatch);
  number("layer", span.layer);
  number("bytes", span.bytes);
  number("peer", span.peer);
  word("group", span.group);
  number("group_size", span.group_size);
  word("algorithm", span.algorithm);
  number("seq", span.sequence);
  text += "}},\n";
}

void write_all(int descriptor, const std::string& text, const std::filesystem::path& path) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw RunError(
          fmt::format("can't write the trace {}: {}", path.string(), std::strerror(errno)));
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace

void append_microseconds(std::string& text, Picoseconds time) {
  const bool negative = time < 0;
  const auto whole = negative ? -time : time;
  put(text, "{}{}", negative ? "-" : "", whole / 1'000'000);
  if (const auto part = whole % 1'000'000; part % 1000 == 0)
    put(text, ".{:03}", part / 1000);
  else
    put(text, ".{:06}", part);
}

std::string hello_line(const TraceHello& hello) {
  using nlohmann::ordered_json;
  ordered_json args;
  args["format"] = 1;
  args["run"] = hello.run;
  args["lesson"] = hello.lesson;
  args["rank"] = hello.rank;
  args["ranks"] = hello.ranks;
  args["mesh"] = ordered_json::parse(hello.mesh);
  args["device"] = hello.device;
  args["launch"] = hello.launch;
  args["clock"] = hello.clock;
  args["cluster"] = hello.cluster;
  args["clock_offset_ns"] = hello.clock_offset_ns;
  args["clock_uncertainty_ns"] = hello.clock_uncertainty_ns;
  args["predicted"] = ordered_json::parse(hello.predicted);
  return fmt::format("{{\"ph\":\"M\",\"name\":\"lockstep\",\"pid\":{},\"tid\":0,\"args\":{}}},\n",
                     hello.rank, args.dump());
}

void append_line(std::string& text, int rank, const TraceEvent& event) {
  switch (event.kind) {
    case TraceEvent::Kind::span:
      return append_span(text, rank, event);
    case TraceEvent::Kind::flow_start:
    case TraceEvent::Kind::flow_end:
      put(text,
          R"({{"ph":"{}","name":"message","cat":"communication","id":{},"pid":{},"tid":{},"ts":)",
          event.kind == TraceEvent::Kind::flow_start ? "s" : "f\",\"bp\":\"e", event.flow, rank,
          event.lane);
      append_microseconds(text, event.start);
      text += "},\n";
      return;
    case TraceEvent::Kind::memory:
      put(text, R"({{"ph":"C","name":"memory","pid":{},"tid":0,"ts":)", rank);
      append_microseconds(text, event.start);
      text += ",\"args\":{";
      for (int i = 0; i < memory_category_count; ++i)
        put(text, "{}\"{}\":{}", i == 0 ? "" : ",", name_of(static_cast<MemoryCategory>(i)),
            event.bytes[static_cast<std::size_t>(i)]);
      text += "}},\n";
      return;
    case TraceEvent::Kind::loss:
      put(text, R"({{"ph":"C","name":"loss","pid":{},"tid":0,"ts":)", rank);
      append_microseconds(text, event.start);
      // JSON has no word for what is not a number.
      put(text, ",\"args\":{{\"loss\":{}}}}},\n",
          std::isfinite(event.value) ? fmt::format("{:.9g}", event.value) : "null");
      return;
    case TraceEvent::Kind::metadata:
      put(text, R"({{"ph":"M","name":"{}","pid":{},"tid":0,"args":{}}},)", event.span.name, rank,
          *event.text);
      text += '\n';
      return;
  }
}

TraceWriter::TraceWriter(std::filesystem::path directory, const std::string& viewer,
                         const std::string& token)
    : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) throw RunError(fmt::format("can't make {}: {}", directory_.string(), error.message()));
  if (!viewer.empty()) streamer_ = std::make_unique<Streamer>(viewer, token);
  thread_ = std::thread{[this] { work(); }};
}

TraceWriter::~TraceWriter() {
  try {
    finish();
  } catch (const std::exception&) {
    // The run has already ended; what could be written has been.
  }
}

void TraceWriter::add(const TraceHello& hello, Recorder& recorder) {
  const auto path = directory_ / fmt::format("rank{}.json", hello.rank);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0)
    throw RunError(fmt::format("can't write {}: {}", path.string(), std::strerror(errno)));
  const std::string line = hello_line(hello);
  try {
    write_all(descriptor,
              "[\n" + line +
                  fmt::format("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"tid\":0,"
                              "\"args\":{{\"name\":\"rank "
                              "{0}\"}}}},\n",
                              hello.rank),
              path);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  if (streamer_) streamer_->add(path, line);
  std::lock_guard lock{mutex_};
  files_.push_back(std::make_unique<File>(File{hello.rank, &recorder, descriptor, path}));
}

void TraceWriter::write_new(File& file) {
  // Events first: a lane is named before its first event is recorded, so the names that follow
  // cover them.
  const std::vector<TraceEvent> events = file.recorder->drain();
  const std::vector<std::string> lanes = file.recorder->lanes();
  std::string text;
  for (; file.lanes_written < lanes.size(); ++file.lanes_written)
    put(text,
        "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}"
        "}},\n",
        file.rank, file.lanes_written, lanes[file.lanes_written]);
  for (const TraceEvent& event : events) {
    append_line(text, file.rank, event);
    file.last = std::max(file.last, event.end);
  }
  append(file, text);
}

void TraceWriter::append(File& file, const std::string& text) {
  if (text.empty() || file.failed) return;
  try {
    write_all(file.descriptor, text, file.path);
  } catch (const RunError& error) {
    file.failed = true;
    if (failure_.empty()) failure_ = error.what();
  }
  if (streamer_) streamer_->notify();
}

void TraceWriter::work() {
  std::unique_lock lock{mutex_};
  while (!stop_) {
    wake_.wait_for(lock, write_interval, [&] { return stop_; });
    for (auto& file : files_) write_new(*file);
  }
}

void TraceWriter::finish(double patience_seconds) {
  std::call_once(finished_, [&] {
    {
      std::lock_guard lock{mutex_};
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    finish_files();
    if (streamer_) streamer_->finish(patience_seconds);
  });
  if (!failure_.empty()) throw RunError(failure_);
}

void TraceWriter::finish_files() {
  std::lock_guard lock{mutex_};  // a rank of a run that is interrupted may still add()
  for (auto& file : files_) {
    write_new(*file);
    std::string text;
    put(text, R"({{"ph":"i","name":"end","s":"p","pid":{},"tid":0,"ts":)", file->rank);
    append_microseconds(text, file->last);
    put(text, ",\"args\":{{\"spans\":{}}}}},\n", file->recorder->span_count());
    append(*file, text);
    ::close(file->descriptor);
  }
}

void merge_traces(const std::vector<std::filesystem::path>& files,
                  const std::filesystem::path& into) {
  std::ofstream out{into, std::ios::binary};
  out << "[\n";
  for (const auto& path : files) {
    std::ifstream in{path, std::ios::binary};
    in.ignore(2);
    if (in.peek() != std::ifstream::traits_type::eof()) out << in.rdbuf();
  }
  out.close();
  if (!out) throw RunError(fmt::format("can't write {}", into.string()));
}

}  // namespace lockstep
