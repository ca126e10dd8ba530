#pragma once

#include <memory>

#include "core/comm/transport/busy_rank.h"
#include "core/comm/transport/transport.h"

namespace lockstep {

/// Initializes MPI for the life of the process, with MPI_THREAD_MULTIPLE.
class MpiSession {
 public:
  /// `native` says whether MPI's own collectives will be called. They wait inside MPI, which then
  /// yields the processor between polls. Our own code sleeps between its polls (polling.h), and MPI
  /// never yields. Throws RunError if MPI does not provide MPI_THREAD_MULTIPLE.
  explicit MpiSession(bool native);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// This process's endpoint. Sends are MPI_Issend, so that a program in which every rank sends
  /// first hangs here as it would under NCCL. Bytes on a GPU are staged through pinned host memory.
  /// wait() throws if for `patience_seconds` none of the ranks that this one waits for, directly or
  /// through others, has reported that it is computing. If this rank is computing and others have
  /// waited that long, `notice` receives a line that says so, at most once per such period.
  std::unique_ptr<Transport> endpoint(double patience_seconds = 60, Notice notice = {}) const;
  /// Ends every process of the run with this exit code.
  [[noreturn]] void abort(int exit_code) const;

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace lockstep
