#pragma once

#include <cstdint>
#include <span>

#include "core/comm/transport/gpu_queue.h"
#include "core/plan/communication.h"
#include "kernels/view.h"

namespace lockstep {

/// The collectives of a backend's library (MPI or NCCL). Like Group's, they work in place on
/// contiguous views. Only one agent at a time may call them, and all members call them in the same
/// order. If gpu_queue() is null, each call returns when this member's part is done; otherwise,
/// each call enqueues that part and returns. Calls throw RunError if the backend reports an error.
class NativeCollectives {
 public:
  virtual ~NativeCollectives() = default;
  /// The GPU queue that the collectives run on; null on the CPU.
  virtual GpuQueue* gpu_queue() { return nullptr; }
  /// Whether the library supports 16-bit elements (MPI does not). All libraries support f32.
  virtual bool supports_16_bit() const { return false; }
  virtual void broadcast(View data, int root) = 0;
  virtual void all_reduce(View data) = 0;
  /// `counts` holds the number of elements in each member's chunk; the chunks are contiguous in
  /// `data`. Writes the sum of this member's chunk to `own`.
  virtual void reduce_scatter(View data, View own, std::span<const int> counts) = 0;
  virtual void all_gather(View data, std::span<const int> counts) = 0;
  virtual void gather(View data, std::span<const int> counts, int root) = 0;
  virtual void all_to_all(View out, std::span<const int> send_counts, View in,
                          std::span<const int> receive_counts) = 0;
  virtual void barrier() = 0;
};

}  // namespace lockstep
