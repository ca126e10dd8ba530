#pragma once

#include <cstdint>
#include <span>

#include "core/comm/transport/gpu_lane.h"
#include "core/plan/communication.h"
#include "kernels/view.h"

namespace lockstep {

/// The collectives that a backend brings along (MPI's, NCCL's), on contiguous views, in place like
/// Group's. Called by one agent at a time, by every member in the same order; each call returns
/// when this member's part is done, or, where there is a lane, when it has been put on it. They
/// throw RunError as the backend reports errors.
class NativeCollectives {
 public:
  virtual ~NativeCollectives() = default;
  /// The queue of a GPU that they go on; null on the CPU.
  virtual GpuLane* lane() { return nullptr; }
  /// Whether elements may be of 16 bits (MPI knows none); f32 always.
  virtual bool narrow() const { return false; }
  virtual void broadcast(View data, int root) = 0;
  virtual void all_reduce(View data) = 0;
  /// `counts`: elements of each member's chunk, one after another in `data`; `own` receives this
  /// member's sum.
  virtual void reduce_scatter(View data, View own, std::span<const int> counts) = 0;
  virtual void all_gather(View data, std::span<const int> counts) = 0;
  virtual void gather(View data, std::span<const int> counts, int root) = 0;
  virtual void all_to_all(View out, std::span<const int> send_counts, View in,
                          std::span<const int> receive_counts) = 0;
  virtual void barrier() = 0;
};

}  // namespace lockstep
