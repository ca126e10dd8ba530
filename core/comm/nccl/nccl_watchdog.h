#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/comm/transport/gpu_communicator.h"
#include "core/comm/transport/transport.h"

namespace lockstep {

/// Looks after what one rank has begun in NCCL, which has no end of its own where another rank does
/// not come: a kernel on the GPU waits for ever, and a host thread inside a call. Once the run has
/// failed, NCCL says that it has, or nothing has been done for `patience_seconds`, all
/// communicators are given up (ncclCommAbort), and everything that waited goes on, to learn of it
/// by check(). check() knows the reason before the first abort: so the error of a thread that
/// merely uses an aborted communicator can be traced to its cause.
class NcclWatchdog {
 public:
  /// `control` and `gpu` outlive it.
  NcclWatchdog(const Transport& control, Gpu& gpu, double patience_seconds);
  /// Looks a last time: what is left of a run that has failed is given up.
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  /// From now on it is watched; outlives the watchdog.
  void add(GpuCommunicator& communicator);
  /// Something was put on a queue, which is over when `done` is passed.
  void expect(MarkPtr done);
  /// Throws RunError, once there is why.
  void check() const;
  /// Asks NCCL for errors, and throws RunError if there is one.
  void look_for_errors();

 private:
  void work();
  /// Throws what is wrong.
  void look();
  void look_for_progress();
  void give_up(const std::string& why);

  const Transport& control_;
  Gpu& gpu_;
  const double patience_seconds_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<GpuCommunicator*> watched_;
  std::vector<MarkPtr> expected_;
  std::int64_t last_progress_;  ///< steady nanoseconds
  std::string failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep
