#include "core/run/launch.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/error.h"

namespace lockstep {

namespace {

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

int run_under_mpirun(int ranks, int argc, char** argv) {
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) throw RunError("can't find this program's own file");
  self[length] = '\0';

  std::vector<std::string> words{"mpirun",          "-n",        std::to_string(ranks),
                                 "--oversubscribe", "--bind-to", "none"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.emplace_back(self);
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) throw RunError(fmt::format("can't start mpirun: {}", std::strerror(errno)));
  if (child == 0) {
    ::execvp("mpirun", arguments.data());
    ::_exit(127);
  }
  // A Ctrl-C reaches mpirun from the terminal; what is sent to this process alone is passed on.
  SignalWatch watch{[child](int) { ::kill(child, SIGTERM); }};
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw UsageError(
        "--launch mpi: there is no mpirun; install openmpi-bin, or use --launch threads");
  if (WIFEXITED(status) && WEXITSTATUS(status) <= 2) return WEXITSTATUS(status);
  return 1;
}

SignalWatch::SignalWatch(std::function<void(int)> on_signal) {
  const sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread{[this, on_signal = std::move(on_signal)] {
    const sigset_t waited = interrupts();
    const timespec interval{0, 100'000'000};
    while (!stop_) {
      const int signal = sigtimedwait(&waited, nullptr, &interval);
      if (signal > 0) on_signal(signal);
    }
  }};
}

SignalWatch::~SignalWatch() {
  stop_ = true;
  thread_.join();
}

}  // namespace lockstep
