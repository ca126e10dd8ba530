#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Returns the direct children of a process on this host.
std::vector<pid_t> children_of(pid_t process);
/// Returns whether a signal such as SIGSTOP has stopped a process. Returns false if a debugger has
/// stopped the process.
bool is_stopped(pid_t process);
/// Returns the value of a variable in the environment that a process started with.
std::optional<std::string> variable_of(pid_t process, const std::string& name);

/// Makes this process adopt every descendant whose parent dies.
void adopt_orphans();
/// Ends the children of this process that have `variable` in their environment, and waits until
/// they are gone. They may handle SIGTERM first; SIGKILL ends those that are stopped, and those
/// that are still running after `grace`.
void end_children(const std::string& variable, std::chrono::milliseconds grace);

/// Finds a process of a run on this host that has been stopped for longer than the time-out. The
/// ranks' own time-outs do not apply while MPI starts and ends, and a stopped process cannot end
/// itself, so the process that started mpirun watches for stopped processes.
class Watchdog {
 public:
  Watchdog(pid_t mpirun, double patience_seconds);

  struct Stopped {
    pid_t process = 0;
    double seconds = 0;
    bool is_mpirun = false;
    std::optional<int> rank;  ///< empty for mpirun, and for a process that is not a rank yet
  };
  /// Call this several times per second. Time during which this process itself was not running does
  /// not count. If `a_rank_has_failed`, half of the time-out is enough, because the failed rank was
  /// probably waiting for the stopped one.
  std::optional<Stopped> look(bool a_rank_has_failed);

 private:
  pid_t mpirun_;
  double patience_seconds_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::map<pid_t, double> stopped_;  ///< seconds since each process was stopped
};

/// Ends a stopped process, so that mpirun ends the others. A rank may first report its last
/// operations and end its trace: it is sent SIGCONT so that it can handle SIGTERM.
class StoppedEnd {
 public:
  explicit StoppedEnd(pid_t mpirun) : mpirun_(mpirun) {}
  void begin(const Watchdog::Stopped& stopped);
  /// Call this regularly. Kills a rank that has not ended after half a second.
  void look();

 private:
  pid_t mpirun_;
  pid_t process_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace lockstep
