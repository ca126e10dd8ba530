#pragma once

#include <cstdint>
#include <span>

#include "core/comm/transport/gpu_queue.h"
#include "core/plan/communication.h"
#include "kernels/view.h"

namespace lockstep {

/// A backend's own collectives (MPI's, NCCL's), on contiguous views, in place like Group's. One
/// agent at a time calls them, and every member calls them in the same order. Each call returns
/// when this member's part is done, or, if there is a lane, when it has been enqueued there. They
/// throw RunError if the backend reports an error.
class NativeCollectives {
 public:
  virtual ~NativeCollectives() = default;
  /// The GPU queue that they run on; null on the CPU.
  virtual GpuQueue* gpu_queue() { return nullptr; }
  /// Whether 16-bit elements are supported (not by MPI); f32 always is.
  virtual bool narrow() const { return false; }
  virtual void broadcast(View data, int root) = 0;
  virtual void all_reduce(View data) = 0;
  /// `counts`: the number of elements in each member's chunk; chunks are contiguous in `data`.
  /// `own` receives this member's sum.
  virtual void reduce_scatter(View data, View own, std::span<const int> counts) = 0;
  virtual void all_gather(View data, std::span<const int> counts) = 0;
  virtual void gather(View data, std::span<const int> counts, int root) = 0;
  virtual void all_to_all(View out, std::span<const int> send_counts, View in,
                          std::span<const int> receive_counts) = 0;
  virtual void barrier() = 0;
};

}  // namespace lockstep
