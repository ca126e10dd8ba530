#include "viz/data/lab/lesson_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>

#include "core/base/child_process.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/token.h"

namespace lockstep::viz {

LessonProcess::LessonProcess(const LessonProgram& program, const std::vector<std::string>& flags,
                             std::filesystem::path output, const std::string& token)
    : output_(std::move(output)) {
  const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    throw RunError(fmt::format("can't write {}: {}", output_.string(), std::strerror(errno)));
  std::vector<std::string> words{program.path().string()};
  words.insert(words.end(), flags.begin(), flags.end());
  const std::string token_prefix = std::string{token_variable} + "=";
  std::vector<std::string> environment;
  for (char** each = environ; *each; ++each)
    if (!std::string_view{*each}.starts_with(token_prefix)) environment.emplace_back(*each);
  if (!token.empty()) environment.push_back(token_prefix + token);
  const std::vector<char*> arguments = pointers_to(words), variables = pointers_to(environment);
  id_ = start_process({.reads = false, .output = file, .errors = file}, [&] {
    ::setpgid(0, 0);
    ::close_range(3, ~0u, 0);
    for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
    ::execve(arguments.front(), arguments.data(), variables.data());
    return 127;
  });
  const int why = errno;
  ::close(file);
  if (id_ < 0)
    throw RunError(fmt::format("can't start lesson {}: {}", program.name(), std::strerror(why)));
  ::setpgid(id_, id_);  // whichever of the two processes comes first
}

LessonProcess::~LessonProcess() {
  using Clock = std::chrono::steady_clock;
  if (!running()) return;
  ::kill(id_, SIGINT);
  const Clock::time_point until = Clock::now() + grace;
  while (running() && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  if (!running()) return;
  ::kill(-id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

bool LessonProcess::running() {
  if (code_) return false;
  int status = 0;
  const pid_t ended = ::waitpid(id_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return true;
  code_ = ended < 0             ? 1
          : WIFEXITED(status)   ? WEXITSTATUS(status)
          : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                : 1;
  return false;
}

std::optional<int> LessonProcess::exit_code() {
  running();
  return code_;
}

void LessonProcess::interrupt() {
  if (running()) ::kill(id_, SIGINT);
}

std::string LessonProcess::output_tail(std::size_t bytes) const {
  std::ifstream file{output_, std::ios::binary | std::ios::ate};
  if (!file) return {};
  const auto size = static_cast<std::size_t>(file.tellg());
  const std::size_t count = std::min(size, bytes);
  file.seekg(static_cast<std::streamoff>(size - count));
  std::string text(count, '\0');
  file.read(text.data(), static_cast<std::streamsize>(count));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::string lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    // A progress line returns to its beginning; only its last state counts.
    std::string_view line = std::string_view{text}.substr(at, end - at);
    while (line.ends_with('\r')) line.remove_suffix(1);
    if (const auto back = line.rfind('\r'); back != std::string_view::npos)
      line.remove_prefix(back + 1);
    lines += printable(std::string{line}) + "\n";
    at = end + 1;
  }
  return lines;
}

std::string last_line(const std::string& text) {
  std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return {};
  const std::size_t before = text.rfind('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end + 1 - begin);
}

}  // namespace lockstep::viz
