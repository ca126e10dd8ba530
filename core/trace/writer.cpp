#include "core/trace/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"

namespace lockstep {

namespace {

constexpr auto write_interval = std::chrono::milliseconds{5};

template <class... Args>
void format_onto(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

/// Writes `text` and returns the number of bytes written. If not all bytes were written, errno
/// holds the reason.
std::size_t write_all(int descriptor, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

/// Every trace begins with this.
constexpr std::string_view beginning = "[\n{\"ph\":\"M\",\"name\":\"lockstep\"";

}  // namespace

std::string hello_line(const TraceHello& hello) {
  using nlohmann::ordered_json;
  ordered_json args;
  args["format"] = trace_format;
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
  if (hello.config != "{}") args["config"] = ordered_json::parse(hello.config);
  args["clock_offset_ns"] = hello.clock_offset_ns;
  args["clock_uncertainty_ns"] = hello.clock_uncertainty_ns;
  args["predicted"] = ordered_json::parse(hello.predicted);
  return fmt::format("{{\"ph\":\"M\",\"name\":\"lockstep\",\"pid\":{},\"tid\":0,\"args\":{}}},\n",
                     hello.rank, args.dump());
}

TraceWriter::TraceWriter(std::filesystem::path directory, const std::string& viewer,
                         const std::string& token, Warning warning)
    : directory_(std::move(directory)), warning_(std::move(warning)) {
  std::error_code ignored;  // without the folder, no file can be opened
  std::filesystem::create_directories(directory_, ignored);
  if (!viewer.empty()) streamer_ = std::make_unique<Streamer>(viewer, token);
  thread_ = std::thread{[this] { work(); }};
}

TraceWriter::~TraceWriter() {
  finish();
}

void TraceWriter::add(const TraceHello& hello, Recorder& recorder) {
  const auto path = directory_ / fmt::format("rank{}.json", hello.rank);
  std::lock_guard lock{mutex_};
  files_.push_back(std::make_unique<File>(File{hello.rank, &recorder, -1, path}));
  File& file = *files_.back();
  if (!is_own_trace(path)) return fail(file, "there is a file of this name that is not a trace");
  file.descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file.descriptor < 0) return fail(file, std::strerror(errno));
  const std::string line = hello_line(hello);
  append(file, "[\n" + line +
                   fmt::format("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"tid\":0,"
                               "\"args\":{{\"name\":\"rank "
                               "{0}\"}}}},\n",
                               hello.rank));
  if (streamer_) streamer_->add(path, line);
}

// Writes in pieces, so even if a rank produces events faster than the disk takes them, the text of
// the rank's whole backlog is never in memory at once.
void TraceWriter::write_new(File& file, bool all_open) {
  if (file.failed) return file.recorder->take([](const TraceEvent&) {});  // keeps the queue small
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
  if (const std::size_t done = write_all(file.descriptor, text); done < text.size()) {
    const std::string why = std::strerror(errno);
    const std::size_t newline = std::string_view{text}.substr(0, done).rfind('\n');
    if (newline != std::string::npos) file.bytes += static_cast<std::int64_t>(newline) + 1;
    [[maybe_unused]] const int ignored = ::ftruncate(file.descriptor, file.bytes);
    fail(file, why);
  } else {
    file.bytes += static_cast<std::int64_t>(done);
  }
  if (streamer_) streamer_->notify();
}

void TraceWriter::fail(File& file, const std::string& why) {
  file.failed = true;
  if (warning_)
    warning_(
        fmt::format("can't write the trace {}: {}; the run goes on, but its trace is not complete",
                    file.path.string(), why));
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
    // A network file system may report only now that its disk is full.
    if (file->descriptor >= 0 && ::close(file->descriptor) != 0 && !file->failed)
      fail(*file, std::strerror(errno));
  }
}

bool is_own_trace(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(file, error);
  if (!std::filesystem::exists(status)) return true;
  if (!std::filesystem::is_regular_file(status)) return false;
  std::string start(beginning.size(), '\0');
  std::ifstream in{file, std::ios::binary};
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(in.gcount()));
  return beginning.starts_with(start) && (in || in.eof());
}

bool is_complete_trace(const std::filesystem::path& file) {
  constexpr std::streamoff longest = 200;  // upper bound on the bytes of an `end` event
  std::ifstream in{file, std::ios::binary | std::ios::ate};
  const std::streamoff size = in.tellg();
  if (!in || size <= 0) return false;
  in.seekg(std::max(std::streamoff{0}, size - longest));
  const std::string end{std::istreambuf_iterator<char>{in}, {}};
  const auto last = end.rfind('\n', end.size() - 2);
  return end.ends_with(",\n") && last != std::string::npos &&
         end.find(R"({"ph":"i","name":"end",)", last) == last + 1;
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
