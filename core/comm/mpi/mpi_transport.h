#pragma once

#include <memory>

#include "core/comm/transport/busy_rank.h"
#include "core/comm/transport/transport.h"

namespace lockstep {

/// MPI for the life of the process, with MPI_THREAD_MULTIPLE. Throws RunError if MPI can't give
/// that.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// This process's end. Sends are MPI_Issend, so that a program which sends first on every rank
  /// hangs here as it would under NCCL. Bytes on a GPU travel through pinned memory of the host.
  /// wait() throws if, for `patience_seconds`, none of the ranks that this one waits for, directly
  /// or through others, has answered that it computes. If this rank computes while others have
  /// waited that long, `notice` receives a line that says so, at most once in that time.
  std::unique_ptr<Transport> endpoint(double patience_seconds = 60, Notice notice = {}) const;
  /// Ends every process of the run with this exit code.
  [[noreturn]] void abort(int exit_code) const;

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace lockstep
