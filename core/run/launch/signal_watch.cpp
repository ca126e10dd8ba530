#include "core/run/launch/signal_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

namespace {

// A signal handler may do very little, and may run on a library's thread. It therefore only writes
// one byte to a pipe, and the watch's own thread does the rest: the signal's number, and a bit that
// is set if the parent process sent the signal.
int signal_pipe[2] = {-1, -1};
constexpr int parent_bit = 0x80;
static_assert(NSIG <= parent_bit);

void write_byte(int value) {
  const auto byte = static_cast<unsigned char>(value);
  [[maybe_unused]] const ssize_t ignored = ::write(signal_pipe[1], &byte, 1);
}

void note_signal(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  write_byte(signal | (info->si_pid == ::getppid() ? parent_bit : 0));
  errno = saved;
}

void handle(int signal) {
  struct sigaction action {};
  action.sa_sigaction = note_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

void block(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

SignalWatch::SignalWatch(Handler on_signal, std::vector<int> signals)
    : on_signal_(std::move(on_signal)), signals_(std::move(signals)) {
  if (::pipe2(signal_pipe, O_CLOEXEC) != 0) throw RunError("can't make a pipe");
  for (const int signal : signals_) handle(signal);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &previous_);
  thread_ = std::thread{[this] {
    unsigned char byte = 0;
    while (::read(signal_pipe[0], &byte, 1) == 1 && byte != 0) {
      const int signal = byte & ~parent_bit;
      std::lock_guard lock{mutex_};
      seen_ |= std::uint64_t{1} << signal;
      on_signal_(signal, (byte & parent_bit) != 0);
    }
  }};
  for (const int signal : signals_) block(signal);
}

SignalWatch::~SignalWatch() {
  for (const int signal : signals_) ::signal(signal, SIG_DFL);
  write_byte(0);
  thread_.join();
  ::close(signal_pipe[0]);
  ::close(signal_pipe[1]);
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void SignalWatch::set_handler(Handler on_signal) {
  std::lock_guard lock{mutex_};
  on_signal_ = std::move(on_signal);
}

void SignalWatch::add(int signal) {
  signals_.push_back(signal);
  handle(signal);
  block(signal);
}

void suspend_this_process() {
  struct sigaction watched {
  }, standard{};
  standard.sa_handler = SIG_DFL;
  sigset_t stop, blocked;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  ::sigaction(SIGTSTP, &standard, &watched);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, &blocked);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  ::sigaction(SIGTSTP, &watched, nullptr);
}

}  // namespace lockstep
