#include "viz/data/feed/input_feed.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "viz/read/timeline/parse.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t read_size = 128 * 1024;  // bytes read between two checks of the budget

/// Returns whether all braces are closed. If not, the line ends within an event.
bool is_whole(std::string_view line) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}') {
      --depth;
    }
  }
  return depth == 0 && !in_text;
}

constexpr std::string_view before_file = "==> ", after_file = " <==";

bool names_file(std::string_view line) {
  return line.size() > before_file.size() + after_file.size() && line.starts_with(before_file) &&
         line.ends_with(after_file);
}

}  // namespace

InputFeed::InputFeed(int descriptor, Timeline& timeline, MemoryLimit limit)
    : descriptor_(descriptor), timeline_(timeline), limit_(limit), reader_(timeline) {}

LiveFeed::Progress InputFeed::pump(std::chrono::microseconds budget) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + budget;
  LiveFeed::Progress progress;
  thread_local std::string buffer(read_size, '\0');
  while (!ended_) {
    pollfd events{descriptor_, POLLIN, 0};
    if (::poll(&events, 1, 0) <= 0) break;
    if (progress.news && Clock::now() >= until) {
      progress.backlog = true;
      break;
    }
    if ((progress.full = limit_.reached())) break;
    const ssize_t count = ::read(descriptor_, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) break;
    if (count > 0) {
      take({buffer.data(), static_cast<std::size_t>(count)});
    } else {
      finish();
    }
    progress.news = true;
  }
  if (progress.news) timeline_.settle();
  return progress;
}

void InputFeed::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    text_.append(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    take_line(std::exchange(text_, {}));
    bytes.remove_prefix(end + 1);
  }
}

void InputFeed::take_line(std::string_view line) {
  if (names_file(line)) {
    line.remove_prefix(before_file.size());
    line.remove_suffix(after_file.size());
    turn_to(line);
    return;
  }
  release();
  std::string whole = std::exchange(cut_[file_], {});
  whole += line;
  if (is_whole(whole)) {
    // Skip the empty lines that tail adds, and the comma left over from a line that tail cut.
    if (const auto text = trimmed(whole); text.empty() || text == ",") return;
    reader_.feed(whole += '\n');
  } else {
    held_ = std::move(whole);
    holds_ = true;
  }
}

void InputFeed::turn_to(std::string_view file) {
  if (std::exchange(holds_, false)) cut_[file_] = std::exchange(held_, {});
  file_ = file;
}

/// Passes the held line on unchanged. No file name followed it, so tail did not cut it.
void InputFeed::release() {
  if (!std::exchange(holds_, false)) return;
  reader_.feed(held_ += '\n');
  held_.clear();
}

void InputFeed::finish() {
  release();
  if (!text_.empty()) take_line(std::exchange(text_, {}));
  release();
  for (auto& [file, line] : cut_)
    if (!line.empty()) reader_.feed(line += '\n');
  reader_.finish();
  ended_ = true;
}

}  // namespace lockstep::viz
