#pragma once

#include <signal.h>

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

/// Calls a function on a separate thread when one of `signals` arrives. Only that thread receives
/// the signals: the constructor blocks them in the calling thread, and so in all threads that the
/// calling thread starts later. A handler must not interrupt a matrix product: with oneDNN 2.6, 5
/// of 12 interrupted runs lost a rank to a corrupted heap. Call unblock_signals() between fork and
/// exec.
///
/// A process can have at most one SignalWatch. SIGCONT counts only if the parent process sent it,
/// because mpirun sends SIGCONT before it ends its ranks.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int)> on_signal,
                       std::vector<int> signals = {SIGINT, SIGTERM});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Replaces the function; when this returns, the previous function is no longer running.
  void set_handler(std::function<void(int)> on_signal);
  /// Watches one more signal.
  void add(int signal);

 private:
  std::mutex mutex_;
  std::function<void(int)> on_signal_;
  std::vector<int> signals_;
  sigset_t previous_{};
  std::thread thread_;
};

/// Unblocks all signals in the calling thread.
void unblock_signals();

}  // namespace lockstep
