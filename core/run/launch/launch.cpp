#include "core/run/launch/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/token.h"
#include "core/run/files/rank_message.h"
#include "core/run/launch/aftermath.h"

namespace lockstep {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr const char* no_mpirun =
    "--launch mpi: mpirun was not found; install openmpi-bin, or use --launch threads";

/// mpirun and its arguments. When a rank exits with an error, OpenMPI 4.1 sends SIGCONT to all
/// others, waits until they are gone or odls_base_sigkill_timeout seconds have passed, and then
/// sends SIGTERM and, some milliseconds later, SIGKILL. So on SIGCONT the ranks report their last
/// operations and end their traces, within one second.
std::vector<std::string> command(int ranks, const HostChoice& hosts, int argc, char** argv) {
  char self[4096];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0) throw RunError("can't find this program's executable");
  self[size] = '\0';

  std::vector<std::string> words{"mpirun",
                                 "-n",
                                 std::to_string(ranks),
                                 "--oversubscribe",
                                 "--bind-to",
                                 "none",
                                 "--mca",
                                 "odls_base_sigkill_timeout",
                                 "1"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  for (const std::string& word : hosts.arguments()) words.push_back(word);
  // Remote hosts receive only the variables named here; this host inherits the whole environment.
  for (const char* variable :
       {"LOCKSTEP_RUN", "LOCKSTEP_CONSOLE", "LOCKSTEP_REPORTS", token_variable})
    if (hosts.any() && std::getenv(variable) != nullptr) {
      words.emplace_back("-x");
      words.emplace_back(variable);
    }
  words.emplace_back(self);
  for (std::string& word : arguments_without({"--view-token", "--view-token-file"}, argc, argv))
    words.push_back(std::move(word));
  return words;
}

/// Starts mpirun with its stderr in a pipe. Returns its process and the pipe's read end.
std::pair<pid_t, int> start(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(stdout);
  int errors[2];
  if (::pipe2(errors, O_CLOEXEC) != 0) throw RunError("can't create a pipe");
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw RunError(fmt::format("can't start mpirun: {}", std::strerror(errno)));
  if (child == 0) {
    // mpirun gets its own process group: otherwise Ctrl-C would reach it twice, from the terminal
    // and from here, and on the second it kills the ranks before they have ended their traces.
    // mpirun ends when this process does, for whatever reason. Its stdin is /dev/null, because a
    // background group may not read it.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    if (const int nothing = ::open("/dev/null", O_RDONLY); nothing >= 0)
      ::dup2(nothing, STDIN_FILENO);
    ::dup2(errors[1], STDERR_FILENO);
    ::execvp("mpirun", arguments.data());
    ::_exit(127);
  }
  ::close(errors[1]);
  return {child, errors[0]};
}

/// Reads lines from a descriptor as they arrive.
class Lines {
 public:
  explicit Lines(int descriptor) : descriptor_(descriptor) {}
  ~Lines() { ::close(descriptor_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  /// Waits up to `milliseconds` for input; returns false at end of file.
  bool read(int milliseconds, const std::function<void(const std::string&)>& take) {
    pollfd events{descriptor_, POLLIN, 0};
    if (::poll(&events, 1, milliseconds) <= 0) return true;
    char bytes[4096];
    const ssize_t count = ::read(descriptor_, bytes, sizeof bytes);
    if (count < 0) return errno == EINTR;
    text_.append(bytes, static_cast<std::size_t>(count));
    if (count == 0 && !text_.empty()) text_ += '\n';
    for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos;) {
      std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      while (line.ends_with('\r')) line.pop_back();
      take(line);
    }
    return count > 0;
  }

 private:
  int descriptor_;
  std::string text_;
};

/// Ensures that mpirun ends soon once it has a reason to. If mpirun does not end by itself, sends
/// it SIGTERM and finally SIGKILL. Its daemons and ranks end when they lose the connection to it.
class Deadline {
 public:
  explicit Deadline(pid_t mpirun) : mpirun_(mpirun) {}
  void look(bool has_reason) {
    using namespace std::chrono_literals;
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!has_reason) since_ = now;
    if (now - since_ > 4s && asked_ == 0) send(SIGTERM);
    if (now - since_ > 6s && asked_ == 1) send(SIGKILL);
  }

 private:
  void send(int signal) {
    ::kill(mpirun_, signal);
    ++asked_;
  }
  pid_t mpirun_;
  SteadyTime since_ = std::chrono::steady_clock::now();
  int asked_ = 0;
};

}  // namespace

void find_mpirun() {
  const char* path = std::getenv("PATH");
  std::istringstream folders{path != nullptr ? path : ""};
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return;
  throw UsageError(no_mpirun);
}

int run_under_mpirun(
    int ranks, double patience_seconds, const HostChoice& hosts, int argc, char** argv,
    SignalWatch& watch,
    const std::function<std::string(const std::map<int, std::string>&)>& epilogue) {
  collect_messages();
  std::atomic<pid_t> child{0};
  std::atomic<bool> interrupted{false};
  // Between SIGTERM and SIGKILL, mpirun gives its ranks only a few milliseconds, so this process
  // first asks the ranks to end their traces (mpirun forwards SIGUSR1).
  watch.set_handler([&interrupted, &child](int) {
    const bool first = !interrupted.exchange(true);
    if (child == 0) return;
    if (first) {
      ::kill(child, end_traces_signal);
      std::this_thread::sleep_for(std::chrono::milliseconds{200});
    }
    ::kill(child, SIGTERM);
  });
  const auto [process, errors] = start(command(ranks, hosts, argc, argv));
  child = process;
  if (interrupted) ::kill(process, SIGTERM);  // the interruption came before the process existed

  // Slightly less than the ranks' interval, because the arrival times of notices vary.
  Aftermath aftermath{ranks, 0.9 * patience_seconds};
  Lines lines{errors};
  Deadline deadline{process};
  const auto take = [&](const std::string& text) {
    const auto shown = aftermath.line(text);
    if (shown && !interrupted) fmt::print(stderr, "{}\n", *shown);
  };
  while (lines.read(100, take)) deadline.look(aftermath.failed() || interrupted);
  const std::string unexplained = aftermath.end();
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  watch.set_handler([](int) {});  // the run is over
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !interrupted) return 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) throw UsageError(no_mpirun);
  const std::string more = epilogue(aftermath.hosts());
  if (interrupted) {
    fmt::print(stderr, "\ninterrupted{}\n", more);
    return 130;
  }
  fmt::print(stderr, "{}{}", unexplained, aftermath.text(more));
  if (aftermath.refused()) return 2;
  if (WIFEXITED(status) && WEXITSTATUS(status) <= 2) return WEXITSTATUS(status);
  return 1;
}

int run_under_mpirun(int ranks, int argc, char** argv) {
  SignalWatch watch{[](int) {}};
  return run_under_mpirun(ranks, 60, {}, argc, argv, watch,
                          [](const std::map<int, std::string>&) { return std::string{}; });
}

}  // namespace lockstep
