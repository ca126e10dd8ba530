#include "core/run/launch/launch.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/print.h"
#include "core/run/files/rank_message.h"
#include "core/run/launch/aftermath.h"
#include "core/run/launch/loopback.h"
#include "core/run/launch/mpirun.h"
#include "core/run/launch/mpirun_log.h"
#include "core/run/launch/processes.h"
#include "core/run/launch/signal_watch.h"

namespace lockstep {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr const char* no_mpirun =
    "--launch mpi: mpirun was not found; install openmpi-bin, or use --launch threads";

/// Ensures that mpirun ends soon after the first reason for it to end. If mpirun does not end by
/// itself, sends it SIGTERM and finally SIGKILL. Its daemons and ranks end when they lose the
/// connection to it.
class Deadline {
 public:
  /// If `other_hosts`, allows more time, because connections to other hosts take longer to end.
  Deadline(pid_t mpirun, bool other_hosts)
      : mpirun_(mpirun), patience_(other_hosts ? 4000 : 2000) {}
  /// `hangs` means that mpirun will certainly not end by itself.
  void look(bool has_reason, bool hangs) {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!has_reason) since_ = now;
    if ((hangs || now - since_ > patience_) && asked_ == 0) send(SIGTERM);
    if (now - since_ > (hangs ? 0.25 : 1.5) * patience_ && asked_ == 1) send(SIGKILL);
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

/// Limits how long MPI may take to start after OpenMPI has logged an error: half of the time-out,
/// because some of these errors make OpenMPI 4.1 hang, and others are harmless.
class StartLimit {
 public:
  explicit StartLimit(double patience_seconds) : left_(patience_seconds / 2) {}
  /// Call this several times per second. Time during which this process itself was not running does
  /// not count.
  bool is_overdue(const Aftermath& aftermath) {
    const SteadyTime now = std::chrono::steady_clock::now();
    const double elapsed = std::chrono::duration<double>{now - std::exchange(last_, now)}.count();
    if (aftermath.start_is_in_doubt() && !aftermath.failed()) left_ -= std::min(elapsed, 0.3);
    return left_ < 0 && aftermath.start_is_in_doubt();
  }

 private:
  double left_;  ///< seconds
  SteadyTime last_ = std::chrono::steady_clock::now();
};

/// Sets the cause of failure of a run that neither a rank nor mpirun has explained. `status` is
/// mpirun's; `silent` is whether mpirun has printed nothing at all.
void explain(int status, bool silent, Aftermath& aftermath) {
  const std::string limits = aftermath.started() ? "" : limits_on_starting();
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    aftermath.set_cause({}, aftermath.failed()
                                ? "a rank ended without a message while it started" + limits
                                : fmt::format("mpirun was killed by signal {} ({}){}", signal,
                                              ::strsignal(signal), limits));
  } else if (const int code = WEXITSTATUS(status); code > 128) {
    aftermath.set_cause(
        {}, fmt::format("mpirun ended with exit code {}: a rank was killed by signal {} ({}){}",
                        code, code - 128, ::strsignal(code - 128), limits));
  } else if (silent) {
    aftermath.set_cause(
        {}, fmt::format("mpirun ended with exit code {} and no message{}", code, limits));
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
  watch.set_handler([&interrupted, &child, &traces_ended, &could_save, ranks](int signal, bool) {
    if (signal == SIGTSTP) {                   // Ctrl-Z
      if (child != 0) ::kill(child, SIGTSTP);  // mpirun stops the ranks, on all hosts
      suspend_this_process();
      if (child != 0) ::kill(child, SIGCONT);
      return;
    }
    if (could_save.exchange(false)) {
      ::kill(child, save_signal);  // which mpirun forwards
      print_error("\n{}\n", stop_notice);
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
  watch.add(SIGTSTP);
  const auto [process, errors, output] = start_mpirun(ranks, hosts, argc, argv);
  child = process;
  if (interrupted) ::kill(process, SIGTERM);  // the interruption came before the process existed

  // The interval is slightly shorter than the ranks' own, because the arrival times of notices
  // vary.
  Aftermath aftermath{ranks, 0.9 * patience_seconds, is_one_host(hosts) ? host_name() : ""};
  Lines lines{errors};
  OutputCopy copy{output};
  Deadline deadline{process, hosts.any()};
  Watchdog watchdog{process, patience_seconds};
  StartLimit start{patience_seconds};
  StoppedEnd stopped_end{process};
  bool silent = true;
  const auto take = [&](const std::string& text) {
    const int ready_before = aftermath.ready();
    const auto shown = aftermath.line(text);
    if (saves && ready_before < ranks && aftermath.ready() == ranks) could_save = true;
    traces_ended = aftermath.traces_ended();
    if (!shown || interrupted) return;
    silent = silent && shown->empty();
    print_error("{}\n", *shown);
  };
  // mpirun may be killed while a child that it has not started completely keeps the pipe open, so
  // this waits for mpirun itself, not only for the end of its output.
  int status = 0;
  while (true) {
    const bool open = lines.descriptor() >= 0;
    wait_for_input({lines.descriptor(), copy.descriptor()}, open ? 100 : 2);
    lines.read(take);
    copy.copy();
    if (::waitpid(process, &status, WNOHANG) == process) break;
    const bool hangs = aftermath.could_not_start() || start.is_overdue(aftermath);
    deadline.look(aftermath.failed() || interrupted || hangs, hangs);
    stopped_end.look();
    if (aftermath.has_own_cause() || interrupted) continue;
    if (const auto stopped = watchdog.look(aftermath.failed())) {
      blame(*stopped, aftermath);
      stopped_end.begin(*stopped);
    }
  }
  while (lines.read(take)) continue;
  while (copy.copy()) continue;
  const std::string unexplained = aftermath.end(status, limits_on_starting());
  watch.set_handler([](int, bool) {});  // the run has ended
  // If mpirun was killed, its ranks are still running.
  end_children(messages_variable, std::chrono::milliseconds{700});
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (good && !interrupted && !aftermath.has_own_cause()) {
    print_error("{}", unexplained);
    if (!copy.failure().empty()) throw RunError(cannot_print(copy.failure()));
    return aftermath.saved_and_ended() ? interrupted_code : 0;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) throw UsageError(no_mpirun);
  if (!aftermath.explains_failure()) explain(status, silent, aftermath);
  const std::string more = epilogue(aftermath.hosts());
  if (interrupted) {
    print_error("\ninterrupted{}\n", more);
    return interrupted_code;
  }
  print_error("{}{}", unexplained, aftermath.text(more));
  if (aftermath.refused()) return 2;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2 && !aftermath.has_own_cause()) return 2;
  return 1;
}

int run_under_mpirun(int ranks, int argc, char** argv) {
  SignalWatch watch{[](int, bool) {}};
  return run_under_mpirun(ranks, 60, {}, /*saves=*/false, argc, argv, watch,
                          [](const std::map<int, std::string>&) { return std::string{}; });
}

}  // namespace lockstep
