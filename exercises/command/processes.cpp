#include "exercises/command/processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/child_process.h"

namespace lockstep::exercises {

namespace {

constexpr int interrupted_code = 130;
volatile std::sig_atomic_t received = 0;

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { received = signal; };  // without SA_RESTART
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

int run(const std::vector<std::string>& words, bool to_stderr) {
  const ChildProcess program{.output = to_stderr ? STDERR_FILENO : -1, .end_signal = 0};
  const pid_t child = start_process(program, [&] { return become(words); });
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR)
    if (received != 0 && received != SIGINT)
      ::kill(child, received);  // a terminal sends Ctrl-C to all processes
  const int code = child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (received != 0 || code == interrupted_code) std::exit(interrupted_code);
  return code;
}

int become(const std::vector<std::string>& words) {
  const std::vector<char*> arguments = pointers_to(words);
  ::execv(arguments.front(), arguments.data());
  fmt::print(stderr, "can't start {}: {}\n", words.front(), std::strerror(errno));
  return 127;
}

void pause(double seconds) {
  ::usleep(static_cast<useconds_t>(seconds * 1e6));
  if (received != 0) std::exit(interrupted_code);
}

}  // namespace lockstep::exercises
