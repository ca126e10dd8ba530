#pragma once

#include <signal.h>

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

/// Calls a function on a separate thread when one of `signals` arrives. A process can have at most
/// one SignalWatch. SIGCONT counts only if the parent process sent it, because mpirun sends SIGCONT
/// before it ends its ranks.
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
  std::thread thread_;
};

}  // namespace lockstep
