#include "core/base/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace lockstep {

pid_t start_process(const ChildProcess& child, const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t parent = ::getpid();
  sigset_t all, none, before;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t process = ::fork();
  if (process == 0) {
    if (child.end_signal != 0) ::prctl(PR_SET_PDEATHSIG, child.end_signal);
    if (child.end_signal != 0 && ::getppid() != parent) ::_exit(127);
    if (!child.reads) ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    if (child.output >= 0) ::dup2(child.output, STDOUT_FILENO);
    if (child.errors >= 0) ::dup2(child.errors, STDERR_FILENO);
    // A pending signal must not run a handler of this process here.
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction action {};
      if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
        std::signal(signal, SIG_DFL);
    }
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    const int code = body();
    std::fflush(stdout);
    ::_exit(code);
  }
  const int why = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = why;
  return process;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace lockstep
