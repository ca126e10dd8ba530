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
void format_onto(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
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
  if (!hello.cluster_description.empty())
    args["cluster_description"] = ordered_json::parse(hello.cluster_description);
  args["clock_offset_ns"] = hello.clock_offset_ns;
  args["clock_uncertainty_ns"] = hello.clock_uncertainty_ns;
  args["predicted"] = ordered_json::parse(hello.predicted);
  return fmt::format("{{\"ph\":\"M\",\"name\":\"lockstep\",\"pid\":{},\"tid\":0,\"args\":{}}},\n",
                     hello.rank, args.dump());
}

TraceWriter::TraceWriter(std::filesystem::path directory, const std::string& viewer,
                         const std::string& token)
    : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error)
    throw RunError(fmt::format("can't create {}: {}", directory_.string(), error.message()));
  if (!viewer.empty()) streamer_ = std::make_unique<Streamer>(viewer, token);
  thread_ = std::thread{[this] { work(); }};
}

TraceWriter::~TraceWriter() {
  try {
    finish();
  } catch (const std::exception&) {
    // The run has already ended; as much as possible has been written.
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

// Writes in pieces. Even if a rank produces events faster than the disk takes them, the text of its
// whole backlog is never in memory at once.
void TraceWriter::write_new(File& file, bool all_open) {
  constexpr std::size_t piece = 1 << 20;
  text_.clear();
  const auto flush = [&] {
    append(file, text_);
    text_.clear();
  };
  // A lane gets its name before its first event, so it is enough to query the names when an event
  // of a new lane arrives.
  const auto name_lanes = [&] {
    const std::vector<std::string> lanes = file.recorder->lanes();
    for (; file.lanes_written < lanes.size(); ++file.lanes_written)
      format_onto(
          text_,
          "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}"
          "\"}}"
          "}},\n",
          file.rank, file.lanes_written, lanes[file.lanes_written]);
  };
  const auto write = [&](const TraceEvent& event) {
    if (static_cast<std::size_t>(event.lane) >= file.lanes_written) name_lanes();
    append_line(text_, file.rank, event);
    file.last = std::max(file.last, event.end);
    if (event.kind == TraceEvent::Kind::span) ++file.spans;
    if (text_.size() >= piece) flush();
  };
  file.recorder->take(write);
  file.recorder->take_open(file.last, all_open, write);
  name_lanes();
  flush();
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
  std::lock_guard lock{mutex_};  // if the run is interrupted, a rank may still call add()
  for (auto& file : files_) {
    write_new(*file, true);
    std::string text;
    format_onto(text, R"({{"ph":"i","name":"end","s":"p","pid":{},"tid":0,"ts":)", file->rank);
    append_microseconds(text, file->last);
    format_onto(text, ",\"args\":{{\"spans\":{}}}}},\n", file->spans);
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
