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
#include "core/run/launch/loopback.h"
#include "core/run/launch/processes.h"
#include "core/run/launch/signal_watch.h"

namespace lockstep {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr const char* no_mpirun =
    "--launch mpi: mpirun was not found; install openmpi-bin, or use --launch threads";

/// mpirun and its arguments. When a rank exits with an error, OpenMPI 4.1 sends SIGCONT to all
/// others, waits until they have ended or odls_base_sigkill_timeout seconds have passed, and then
/// sends SIGTERM and, a few milliseconds later, SIGKILL. On SIGCONT the ranks therefore report
/// their last operations and end their traces, within one second.
std::vector<std::string> command(int ranks, const HostChoice& hosts, int argc, char** argv) {
  char self[4096];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0) throw RunError("can't find this program's executable");
  self[size] = '\0';

  std::vector<std::string> words;
  if (is_one_host(hosts)) words = preload_loopback();
  const bool preloads = !words.empty();  // preload into mpirun, but not into the ranks
  for (const char* word : {"mpirun", "--oversubscribe", "--bind-to", "none", "--mca",
                           "odls_base_sigkill_timeout", "1", "-n"})
    words.emplace_back(word);
  words.push_back(std::to_string(ranks));
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  for (const std::string& word : hosts.arguments()) words.push_back(word);
  // Remote hosts receive only the variables named here; this host inherits the whole environment.
  for (const char* variable :
       {"LOCKSTEP_RUN", "LOCKSTEP_CONSOLE", "LOCKSTEP_REPORTS", token_variable})
    if (hosts.any() && std::getenv(variable) != nullptr) {
      words.emplace_back("-x");
      words.emplace_back(variable);
    }
  if (preloads)
    for (const std::string& word : preload_own()) words.push_back(word);
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
    // mpirun gets its own process group. Otherwise it would receive Ctrl-C twice, from the terminal
    // and from this process, and at the second one it would kill the ranks before they have ended
    // their traces. mpirun ends when this process ends, for whatever reason. Its stdin is
    // /dev/null, because a background group may not read it.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    if (const int nothing = ::open("/dev/null", O_RDONLY); nothing >= 0)
      ::dup2(nothing, STDIN_FILENO);
    ::dup2(errors[1], STDERR_FILENO);
    unblock_signals();
    ::execvp(arguments.front(), arguments.data());
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

  /// Returns whether there is input to read, or the input has ended.
  bool has_more() const {
    pollfd events{descriptor_, POLLIN, 0};
    return ::poll(&events, 1, 0) > 0;
  }
  int descriptor() const { return descriptor_; }
  /// Reads the input there is; waits for it if there is none. Returns false at end of file.
  bool read(const std::function<void(const std::string&)>& take) {
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

/// Ensures that mpirun ends soon after the first reason for it to end. If mpirun does not end by
/// itself, sends it SIGTERM and finally SIGKILL. Its daemons and ranks end when they lose the
/// connection to it.
class Deadline {
 public:
  /// If `other_hosts`, allows more time, because connections to other hosts take longer to end.
  Deadline(pid_t mpirun, bool other_hosts)
      : mpirun_(mpirun), patience_(other_hosts ? 4000 : 2000) {}
  void look(bool has_reason) {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!has_reason) since_ = now;
    if (now - since_ > patience_ && asked_ == 0) send(SIGTERM);
    if (now - since_ > 1.5 * patience_ && asked_ == 1) send(SIGKILL);
  }

 private:
  void send(int signal) {
    ::kill(mpirun_, signal);
    ++asked_;
  }
  pid_t mpirun_;
  std::chrono::milliseconds patience_;
  SteadyTime since_ = std::chrono::steady_clock::now();
  int asked_ = 0;
};

/// Sets the cause of failure of a run that neither a rank nor mpirun has explained. `status` is
/// mpirun's; `silent` is whether mpirun has printed nothing at all.
void explain(int status, bool silent, std::optional<int> first_to_end, Aftermath& aftermath) {
  const auto killed_by = [](int signal) {
    return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
  };
  if (WIFSIGNALED(status)) {
    if (!aftermath.failed())
      aftermath.set_cause({}, "mpirun was " + killed_by(WTERMSIG(status)));
    else if (first_to_end)
      aftermath.set_cause(first_to_end, "ended without a message while it started");
    else
      aftermath.set_cause({}, "a rank ended without a message while it started");
    return;
  }
  const int code = WEXITSTATUS(status);
  if (code > 128) {  // 128 plus the signal that killed a rank while mpirun was starting others
    const std::string killed = killed_by(code - 128) + " while it started";
    aftermath.set_cause(
        first_to_end,
        first_to_end ? killed
                     : fmt::format("mpirun ended with exit code {}: a rank was {}", code, killed));
  } else if (silent) {
    aftermath.set_cause({}, fmt::format("mpirun ended with exit code {} and no message", code));
  }
}

/// Sets the cause of failure of a run in which a process has been stopped.
void blame(const Watchdog::Stopped& stopped, Aftermath& aftermath) {
  const std::string since = fmt::format("has been stopped for {:.1f} s", stopped.seconds);
  if (stopped.rank)
    aftermath.set_cause(stopped.rank, fmt::format("its process ({}) {}", stopped.process, since));
  else
    aftermath.set_cause(
        {}, fmt::format("{} (process {}) {}", stopped.is_mpirun ? "mpirun" : "a rank's process",
                        stopped.process, since));
}

}  // namespace

void find_mpirun() {
  const char* path = std::getenv("PATH");
  std::istringstream folders{path != nullptr ? path : ""};
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return;
  throw UsageError(no_mpirun);
}

int run_under_mpirun(
    int ranks, double patience_seconds, const HostChoice& hosts, bool saves, int argc, char** argv,
    SignalWatch& watch,
    const std::function<std::string(const std::map<int, std::string>&)>& epilogue) {
  collect_messages();
  adopt_orphans();
  if (is_one_host(hosts)) keep_off_the_network();
  std::atomic<pid_t> child{0};
  std::atomic<bool> interrupted{false};
  // Between SIGTERM and SIGKILL, mpirun gives its ranks only a few milliseconds, so this process
  // first asks the ranks to end their traces (mpirun forwards SIGUSR1), and waits until they have.
  std::atomic<int> traces_ended{0};
  // Before training, there is nothing to save.
  std::atomic<bool> could_save{false};
  watch.set_handler([&interrupted, &child, &traces_ended, &could_save, ranks](int) {
    if (could_save.exchange(false)) {
      ::kill(child, save_signal);  // which mpirun forwards
      fmt::print(stderr, "\n{}\n", stop_notice);
      return;
    }
    const bool first = !interrupted.exchange(true);
    if (child == 0) return;
    if (first) {
      ::kill(child, end_traces_signal);
      for (int i = 0; i < 100 && traces_ended < ranks; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    ::kill(child, SIGTERM);
  });
  const auto [process, errors] = start(command(ranks, hosts, argc, argv));
  child = process;
  if (interrupted) ::kill(process, SIGTERM);  // the interruption came before the process existed

  // The interval is slightly shorter than the ranks' own, because the arrival times of notices
  // vary.
  Aftermath aftermath{ranks, 0.9 * patience_seconds};
  Lines lines{errors};
  Deadline deadline{process, hosts.any()};
  Watchdog watchdog{process, patience_seconds};
  StoppedEnd stopped_end{process};
  FirstToEnd first_to_end{process, hosts.any() ? 0 : ranks};
  bool silent = true;
  const auto take = [&](const std::string& text) {
    const int ready_before = aftermath.ready();
    const auto shown = aftermath.line(text);
    if (saves && ready_before < ranks && aftermath.ready() == ranks) could_save = true;
    traces_ended = aftermath.traces_ended();
    if (!shown || interrupted) return;
    silent = silent && shown->empty();
    fmt::print(stderr, "{}\n", *shown);
  };
  // mpirun may be killed while a child that it has not started completely keeps the pipe open, so
  // this waits for mpirun itself, not only for the end of its output.
  int status = 0;
  bool open = true;
  while (true) {
    if (open)
      open = !first_to_end.wait_for_input(lines.descriptor(), 100) || lines.read(take);
    else
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    if (::waitpid(process, &status, WNOHANG) == process) break;
    deadline.look(aftermath.failed() || interrupted);
    stopped_end.look();
    if (aftermath.has_own_cause() || interrupted) continue;
    if (const auto stopped = watchdog.look(aftermath.failed())) {
      blame(*stopped, aftermath);
      stopped_end.begin(*stopped);
    }
  }
  while (open && lines.has_more()) open = lines.read(take);
  const std::string unexplained = aftermath.end();
  watch.set_handler([](int) {});  // the run has ended
  // If mpirun was killed, its ranks are still running.
  end_children(messages_variable, std::chrono::milliseconds{700});
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (good && !interrupted && !aftermath.has_own_cause())
    return aftermath.saved_and_ended() ? interrupted_code : 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) throw UsageError(no_mpirun);
  if (!aftermath.explains_failure()) explain(status, silent, first_to_end.rank(), aftermath);
  const std::string more = epilogue(aftermath.hosts());
  if (interrupted) {
    fmt::print(stderr, "\ninterrupted{}\n", more);
    return interrupted_code;
  }
  fmt::print(stderr, "{}{}", unexplained, aftermath.text(more));
  if (aftermath.refused()) return 2;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2 && !aftermath.has_own_cause()) return 2;
  return 1;
}

int run_under_mpirun(int ranks, int argc, char** argv) {
  SignalWatch watch{[](int) {}};
  return run_under_mpirun(ranks, 60, {}, /*saves=*/false, argc, argv, watch,
                          [](const std::map<int, std::string>&) { return std::string{}; });
}

}  // namespace lockstep
