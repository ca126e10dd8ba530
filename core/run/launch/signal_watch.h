#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

/// Calls a function on a separate thread when one of `signals` arrives. Only that thread receives
/// the signals: the constructor blocks them in the calling thread, and so in all threads that the
/// calling thread starts later. A handler must not interrupt a matrix product: with oneDNN 2.6, 5
/// of 12 interrupted runs lost a rank to a corrupted heap. Start child processes with
/// start_process(), which unblocks the signals.
///
/// A process can have at most one SignalWatch.
class SignalWatch {
 public:
  /// `from_parent` tells whether the parent process, such as mpirun, sent the signal.
  using Handler = std::function<void(int signal, bool from_parent)>;

  explicit SignalWatch(Handler on_signal, std::vector<int> signals = {SIGINT, SIGTERM});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Replaces the function; when this returns, the previous function is no longer running.
  void set_handler(Handler on_signal);
  /// Watches one more signal.
  void add(int signal);
  /// Whether `signal` has arrived before.
  bool has_seen(int signal) const { return (seen_ >> signal & 1U) != 0; }

 private:
  std::mutex mutex_;
  Handler on_signal_;
  std::vector<int> signals_;
  std::atomic<std::uint64_t> seen_{0};  ///< one bit per signal
  sigset_t previous_{};
  std::thread thread_;
};

/// Stops this process as SIGTSTP does by default. Returns when the process continues, or at once
/// if no shell could continue it (the kernel then ignores SIGTSTP).
void suspend_this_process();

}  // namespace lockstep
