#pragma once

#include <signal.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {

/// Throws UsageError where there is no mpirun.
void find_mpirun();

/// Starts this program again as `ranks` processes under mpirun, with the same arguments, and waits
/// for them. Works as root and with more ranks than cores. A rank that died is named on stderr,
/// with `epilogue` behind. Returns the exit code: the ranks' own where that is 0, 1 or 2,
/// otherwise 1. Throws UsageError where there is no mpirun.
int run_under_mpirun(int ranks, int argc, char** argv, const std::string& epilogue);

/// What run_under_mpirun() sends its ranks before an interruption ends them: end your traces.
constexpr int end_traces_signal = SIGUSR1;

/// Calls `on_signal` on a thread of its own when one of `signals` comes. One at a time in a
/// process.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int)> on_signal,
                       std::vector<int> signals = {SIGINT, SIGTERM});
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  std::vector<int> signals_;
  std::thread thread_;
};

}  // namespace lockstep
