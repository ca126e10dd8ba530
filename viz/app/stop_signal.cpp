#include "viz/app/stop_signal.h"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>

namespace lockstep::viz {
namespace {

constexpr suseconds_t patience_microseconds = 700'000;

volatile std::sig_atomic_t stop_signal = 0;
volatile std::sig_atomic_t late_code = -1;

void on_signal(int signal) {
  if (stop_signal != 0) return;
  stop_signal = signal;
  const itimerval soon{.it_interval = {0, 0}, .it_value = {0, patience_microseconds}};
  ::setitimer(ITIMER_REAL, &soon, nullptr);
}

void on_time_out(int) {
  ::_exit(late_code >= 0 ? late_code : 128 + stop_signal);
}

}  // namespace

void watch_stop_signals() {
  std::signal(SIGALRM, on_time_out);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool stop_requested() {
  return stop_signal != 0;
}

void finish_with(int exit_code) {
  late_code = exit_code;
}

}  // namespace lockstep::viz
