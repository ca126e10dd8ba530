#pragma once

#include <memory>

#include "core/base/error.h"
#include "core/comm/transport/busy_rank.h"
#include "core/comm/transport/transport.h"

namespace lockstep {

struct MpiCommunicators;

/// Thrown by a wait for a message, after --timeout.
struct WaitedTooLong : RunError {
  using RunError::RunError;
};

/// Initializes MPI with MPI_THREAD_MULTIPLE, and finalizes it on destruction.
class MpiSession {
 public:
  /// `native` says whether the run will call MPI's own collectives. They wait inside MPI, so if
  /// `native` is true, MPI is set to yield the processor between its polls. If `native` is false,
  /// Lockstep itself does all the waiting, and sleeps between its polls (polling.h). Throws
  /// RunError if MPI does not support MPI_THREAD_MULTIPLE.
  explicit MpiSession(bool native);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Creates this process's endpoint. Sends use MPI_Issend, so that a program in which every rank
  /// sends first hangs here as it would under NCCL. Bytes on a GPU are staged through pinned host
  /// memory. A wait throws if, for `patience_seconds`, none of the ranks that this rank is waiting
  /// for, directly or through others, has reported that it is computing. If other ranks have been
  /// waiting that long for this rank while it is computing, `busy` receives a line that says so,
  /// at most once per `patience_seconds`. If this rank has been inside one of MPI's own collectives
  /// for that long, `hung` receives the reason, as the end of a sentence about this rank, and must
  /// end the process: no exception can reach a thread that MPI does not return to. By default, it
  /// prints the reason and calls abort(1). The first call is collective over all ranks.
  std::unique_ptr<Transport> endpoint(double patience_seconds = 60, Notice busy = {},
                                      Notice hung = {}) const;
  /// Ends all processes of the run with `exit_code`.
  [[noreturn]] void abort(int exit_code) const;

 private:
  int rank_ = 0;
  int size_ = 1;
  mutable std::unique_ptr<MpiCommunicators> communicators_;  ///< created with the first endpoint
};

}  // namespace lockstep
