#pragma once

#include <signal.h>

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

/// Calls a function on a separate thread when one of `signals` arrives. At most one per process.
/// SIGCONT counts only if the parent process sent it: mpirun ends its ranks by sending it first.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int)> on_signal,
                       std::vector<int> signals = {SIGINT, SIGTERM});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Replaces the function; when this returns, the previous one is no longer running.
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
