#pragma once

#include <algorithm>

#include "lessons/20_when_ranks_die/goodput/failures.h"

namespace lockstep {

/// A job that trains `steps` steps, and what it does about failures. Each strategy uses some of
/// these values. Most are flags, which `./lockstep goodput --help` explains.
struct Job {
  int ranks = 1;
  std::int64_t steps = 1;
  Microseconds step = 1;
  std::int64_t interval = 1;  ///< steps between two checkpoints; the last steps also end with one

  // Checkpoints. Training waits for `pause`. The checkpoint can be used only `hidden` later: until
  // then it is being copied or written beside the next steps.
  Microseconds pause = 0, hidden = 0;
  /// With checkpoints in a peer's memory: the time to write one to disk, beside the steps.
  Microseconds write = 0;

  // After a failure, `detect` passes until anyone notices it, and then `restart` until all ranks
  // train again: from a checkpoint, or, with spares, from the state of the failed rank's peers.
  Microseconds detect = 0, restart = 0;
  /// With checkpoints in a peer's memory: the restart from the disk, if the memory was lost, too.
  Microseconds restart_from_disk = 0;

  // A quorum per step.
  int replicas = 1;
  Microseconds replace = 0;  ///< from detection until the lost replica can return
  Microseconds heal = 0;     ///< for which all wait while it copies the state of a peer

  // Hot spares.
  int spares = 0;
  Microseconds repair = 0;  ///< until a failed device is a spare again
};

/// Where the time of a run goes. Each microsecond belongs to one part.
struct Account {
  Microseconds useful = 0;      ///< steps that the final model contains
  Microseconds absent = 0;      ///< share of these steps that missing replicas did not compute
  Microseconds checkpoint = 0;  ///< pauses for the checkpoints between these steps
  Microseconds lost = 0;        ///< work that a failure undid, with its checkpoints
  Microseconds detection = 0, recovery = 0;
  Microseconds waiting = 0;  ///< for a device to be repaired
  Microseconds total = 0;    ///< from the start to the end, by the run's clock
  std::int64_t steps = 0, failures = 0;
  bool finished = true;  ///< false if the simulation gave up after `most_failures`

  Microseconds sum() const {
    return useful + absent + checkpoint + lost + detection + recovery + waiting;
  }
  /// The share of the time that went into work that was kept.
  double goodput() const { return static_cast<double>(useful) / static_cast<double>(total); }
};

/// Adds all whole intervals, each with its checkpoint, that fit before the time `until`. `now` is
/// the end of a checkpoint, or the start. Returns how many these are.
inline std::int64_t whole_intervals(const Job& job, Account& account, Microseconds& now,
                                    Microseconds until) {
  const Microseconds training = job.interval * job.step;
  const std::int64_t count =
      std::min((until - now) / (training + job.pause), (job.steps - account.steps) / job.interval);
  account.useful += count * training;
  account.checkpoint += count * job.pause;
  account.steps += count * job.interval;
  now += count * (training + job.pause);
  return count;
}

constexpr std::int64_t most_failures = 2'000'000;

}  // namespace lockstep
