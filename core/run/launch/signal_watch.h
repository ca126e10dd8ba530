#pragma once

#include <signal.h>

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

/// Calls a function on a thread of its own when one of `signals` comes. One at a time in a process.
/// SIGCONT counts only where the parent process has sent it: that is how mpirun begins to end its
/// ranks.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int)> on_signal,
                       std::vector<int> signals = {SIGINT, SIGTERM});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// From now on it is this function that is called; when this returns, the one before is done.
  void now_call(std::function<void(int)> on_signal);
  /// Watches one more signal.
  void add(int signal);

 private:
  std::mutex mutex_;
  std::function<void(int)> on_signal_;
  std::vector<int> signals_;
  std::thread thread_;
};

}  // namespace lockstep
