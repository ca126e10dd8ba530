#include "core/run/launch/processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace lockstep {

namespace {

/// Returns the readable content of a file; nothing if its process has ended, even after the file
/// was opened. (The insertion handles the error that reading it then gives; an iterator over the
/// buffer would throw.)
std::string content_of(const std::string& path) {
  const std::ifstream file{path, std::ios::binary};
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

/// Returns the rank that mpirun started as this process; empty for any other process.
std::optional<int> rank_of(pid_t process) {
  const std::optional<std::string> rank = variable_of(process, "OMPI_COMM_WORLD_RANK");
  return rank ? std::optional{std::atoi(rank->c_str())} : std::nullopt;
}

}  // namespace

// The kernel lists children by the thread that started them, so this reads the lists of all
// threads.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code error;
  std::filesystem::directory_iterator thread{fmt::format("/proc/{}/task", process), error};
  for (; thread != std::filesystem::directory_iterator{}; thread.increment(error)) {
    std::ifstream list{thread->path() / "children"};
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

// The file contains "123 (a name) T ..."; the name may contain parentheses.
bool is_stopped(pid_t process) {
  const std::string stat = content_of(fmt::format("/proc/{}/stat", process));
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.compare(name_end, 3, ") T") == 0;
}

std::optional<std::string> variable_of(pid_t process, const std::string& name) {
  const std::string all = '\0' + content_of(fmt::format("/proc/{}/environ", process));
  const auto at = all.find('\0' + name + '=');
  if (at == std::string::npos) return {};
  const auto begin = at + name.size() + 2;
  return all.substr(begin, all.find('\0', begin) - begin);
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
}

void end_children(const std::string& variable, std::chrono::milliseconds grace) {
  const auto begin = std::chrono::steady_clock::now();
  bool asked = false;
  while (true) {
    std::vector<pid_t> left;
    for (const pid_t child : children_of(::getpid()))
      if (::waitpid(child, nullptr, WNOHANG) == 0 && variable_of(child, variable))
        left.push_back(child);
    if (left.empty()) return;
    const bool at_once = std::chrono::steady_clock::now() - begin > grace;
    for (const pid_t child : left)
      if (at_once || is_stopped(child))
        ::kill(child, SIGKILL);
      else if (!asked)
        ::kill(child, SIGTERM);
    asked = true;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

Watchdog::Watchdog(pid_t mpirun, double patience_seconds)
    : mpirun_(mpirun), patience_seconds_(patience_seconds) {}

std::optional<Watchdog::Stopped> Watchdog::look(bool a_rank_has_failed) {
  using Seconds = std::chrono::duration<double>;
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::min(Seconds{now - last_}.count(), 0.3);
  last_ = now;
  std::vector<pid_t> watched = children_of(mpirun_);
  watched.push_back(mpirun_);
  std::map<pid_t, double> stopped;
  std::optional<Stopped> longest;
  double most = a_rank_has_failed ? patience_seconds_ / 2 : patience_seconds_;
  for (const pid_t process : watched) {
    if (!is_stopped(process)) continue;
    const auto before = stopped_.find(process);
    // A process that was still running at the previous look counts as stopped only from now on.
    const double seconds = before == stopped_.end() ? 0 : before->second + elapsed;
    stopped[process] = seconds;
    if (seconds <= most) continue;
    most = seconds;
    longest = Stopped{
        .process = process, .seconds = seconds, .is_mpirun = process == mpirun_, .rank = {}};
  }
  stopped_ = std::move(stopped);
  if (longest && !longest->is_mpirun) longest->rank = rank_of(longest->process);
  return longest;
}

void StoppedEnd::begin(const Watchdog::Stopped& stopped) {
  if (!stopped.rank) {
    ::kill(stopped.process, SIGKILL);
    return;
  }
  process_ = stopped.process;
  begin_ = std::chrono::steady_clock::now();
  ::kill(process_, SIGTERM);
  ::kill(process_, SIGCONT);
}

void StoppedEnd::look() {
  if (process_ == 0 || std::chrono::steady_clock::now() - begin_ < std::chrono::milliseconds{500})
    return;
  if (std::ranges::count(children_of(mpirun_), process_) > 0) ::kill(process_, SIGKILL);
  process_ = 0;
}

}  // namespace lockstep
