#pragma once

#include <chrono>

namespace lockstep {

/// Asks the kernel to run the calling thread, and the threads that it creates, soon after they wake
/// up. Requests time slices of 100 µs (no effect before Linux 6.12), and timers that fire at most 1
/// µs late instead of 50 µs. A rank spends its time in short waits for its peers. With the usual
/// time slice of a few milliseconds, a process that is computing on the same core would delay the
/// end of each wait by a whole slice.
void wake_up_promptly();

/// The pauses of a thread that polls until a message has arrived. If every rank on the host has a
/// core of its own, the thread polls without pause for the first 20 µs. Then it sleeps between
/// polls, each time for a quarter of its wait so far, but at least 20 µs and at most 1 ms. It never
/// calls sched_yield(), because that gives up the rest of the time slice: if another process is
/// computing on the same core, each call would lose that process's whole time slice.
class Polling {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Polling() : begin_(std::chrono::steady_clock::now()) {}

  Time begin() const { return begin_; }
  /// Pauses before the next poll. Returns the number of seconds slept; 0 if the thread did not
  /// sleep.
  double pause();

 private:
  Time begin_;
};

}  // namespace lockstep
