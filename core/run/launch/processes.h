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

/// Finds out which rank on this host was the first to end. mpirun normally says so, but it loses
/// the message if a rank is killed while mpirun is still starting the others.
class FirstToEnd {
 public:
  /// `ranks`: the number of ranks that mpirun starts on this host.
  FirstToEnd(pid_t mpirun, int ranks) : mpirun_(mpirun), ranks_(ranks) {}
  ~FirstToEnd();
  FirstToEnd(const FirstToEnd&) = delete;
  FirstToEnd& operator=(const FirstToEnd&) = delete;

  /// Waits until `descriptor` has input or a rank ends, but at most `milliseconds`. Returns whether
  /// there is input.
  bool wait_for_input(int descriptor, int milliseconds);
  /// The first rank that ended. Empty if none has, if several had when this process looked, or if a
  /// rank that this process has not seen may have ended before.
  std::optional<int> rank() const {
    return all_seen() && ended_.size() == 1 ? std::optional{ended_.front()} : std::nullopt;
  }

 private:
  struct Process {
    int rank = 0;
    int descriptor = -1;  ///< a pidfd, which has input once the process has ended
  };
  bool all_seen() const { return watched_.size() == static_cast<std::size_t>(ranks_); }
  void look_for_ranks();

  pid_t mpirun_;
  int ranks_;
  std::map<pid_t, Process> watched_;
  std::vector<int> ended_;  ///< the ranks that had ended when the first one was noticed
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
