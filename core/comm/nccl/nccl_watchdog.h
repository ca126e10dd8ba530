#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/comm/transport/gpu_communicator.h"
#include "core/comm/transport/transport.h"

namespace lockstep {

/// Watches one rank's pending NCCL operations. NCCL has no time-out: if another rank never arrives,
/// a kernel on the GPU, or a host thread inside an NCCL call, waits forever. When the run has
/// failed, or NCCL reports an error, or no operation has completed for `patience_seconds` although
/// one has begun, the watchdog aborts all communicators (ncclCommAbort). Blocked threads then
/// continue, and check() throws an error with the cause. The failure is recorded before the first
/// abort, so that a thread whose NCCL call fails because of the abort finds the cause in check(). A
/// second thread does the same if the first one does not return from a call of the GPU's driver or
/// of NCCL for `patience_seconds`; it only looks at the time.
class NcclWatchdog {
 public:
  /// `control` and `gpu` must outlive the watchdog.
  NcclWatchdog(const Transport& control, Gpu& gpu, double patience_seconds);
  /// Checks the run once more. If the run has failed, aborts the remaining operations.
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  /// Watches `communicator`, which must outlive the watchdog.
  void add(GpuCommunicator& communicator);
  /// Watches a queued operation. Until the mark `begun` is passed, it waits for this rank's own
  /// kernels, however long they take; when `done` is passed, it has ended. In between, it counts as
  /// waiting for other ranks, also if it is a receive that was posted long before it is needed.
  void expect(Marks marks);
  /// Throws RunError if the run has failed.
  void check() const;

 private:
  void work();
  void watch_the_watch();
  /// Looks for problems once, and throws RunError for the first one.
  void look();
  void look_for_errors();
  void look_for_progress();
  void give_up(const std::string& why);

  const Transport& control_;
  Gpu& gpu_;
  const double patience_seconds_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<GpuCommunicator*> watched_;
  std::vector<Marks> expected_;
  std::int64_t last_progress_;  ///< in steady-clock nanoseconds: one has ended, or none had begun
  std::int64_t last_look_;      ///< when work() last came back from looking
  std::string failure_;
  bool stop_ = false;
  bool ended_ = false;  ///< work() has returned
  std::thread thread_;
  std::thread second_;
};

}  // namespace lockstep
