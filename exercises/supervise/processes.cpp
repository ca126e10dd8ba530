#include "exercises/supervise/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "core/base/child_process.h"
#include "core/run/launch/processes.h"

namespace lockstep::exercises {

Pipe::Pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error{"can't create a pipe"};
  read_end = ends[0];
  write_end = ends[1];
  ::fcntl(read_end, F_SETFL, O_NONBLOCK);
}

Pipe::~Pipe() {
  ::close(read_end);
  ::close(write_end);
}

std::string Pipe::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), write_end);
}

pid_t start(int output, const std::function<int()>& body) {
  const pid_t child = start_process(
      {.reads = false, .output = output, .errors = output, .end_signal = SIGKILL}, [&] {
        ::setsid();
        return body();
      });
  if (child < 0)
    throw std::runtime_error{fmt::format("can't start a process: {}", std::strerror(errno))};
  return child;
}

int become(const std::vector<std::string>& words) {
  // A thread whose stack overflows may overwrite the data of a neighbouring thread, including the
  // area that glibc shares with the kernel (rseq). The kernel would then kill the program when it
  // next interrupts that thread, before the address sanitizer has said where the stack overflowed.
  const char* const given = std::getenv("GLIBC_TUNABLES");
  const std::string others = given == nullptr || *given == '\0' ? "" : std::string{given} + ":";
  ::setenv("GLIBC_TUNABLES", (others + "glibc.pthread.rseq=0").c_str(), 1);
  const std::vector<char*> arguments = pointers_to(words);
  ::execv(arguments.front(), arguments.data());
  fmt::print(stderr, "can't start {}: {}\n", words.front(), std::strerror(errno));
  return 127;
}

std::vector<pid_t> descendants() {
  std::vector<pid_t> all = children_of(::getpid());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const pid_t child : children_of(all[i])) all.push_back(child);
  return all;
}

// The children of a dying process become children of this one, so the last round finds them.
void end_descendants() {
  while (true) {
    for (const pid_t process : descendants()) ::kill(process, SIGKILL);
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0 && errno == ECHILD) return;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

}  // namespace lockstep::exercises
