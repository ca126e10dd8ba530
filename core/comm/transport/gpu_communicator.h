#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/kernels.h"

namespace lockstep {

/// An ordered set of ranks with one GPU each, and NCCL's operations between them (core/comm/nccl).
/// Every operation enqueues its work and returns. All members call the same operations in the same
/// order. Views are contiguous, with f32, bf16, f16 or i32 elements. Ranks, roots and peers are
/// indices in the communicator. Every operation throws std::runtime_error if NCCL reports an error.
/// Operations may have to wait for other members, because NCCL makes connections at their first
/// use. They then call the WaitCheck that was passed to Gpu::join.
class GpuCommunicator {
 public:
  virtual ~GpuCommunicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends and receives between these two calls are submitted together; see GpuGroup.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual void send(Queue queue, View data, int to) = 0;
  virtual void receive(Queue queue, View into, int from) = 0;

  virtual void broadcast(Queue queue, View data, int root) = 0;
  /// Sums `data` over all members, in place.
  virtual void all_reduce(Queue queue, View data) = 0;
  /// Divides `data` into size() equal chunks and writes the sum of this member's chunk to `own`,
  /// which is a view of that chunk in `data`. Leaves the other chunks unchanged.
  virtual void reduce_scatter(Queue queue, View data, View own) = 0;
  /// Gathers size() equal chunks into `data`; this member's own chunk is already in place.
  virtual void all_gather(Queue queue, View data) = 0;
  /// Sums `data` over all members, and leaves the sum in the root's `data`.
  virtual void reduce(Queue queue, View data, int root) = 0;

  /// Returns the asynchronous error, if one has occurred (ncclCommGetAsyncError).
  virtual std::optional<std::string> error() = 0;
  /// Aborts all queued operations (ncclCommAbort). Callable from any thread. Later calls throw an
  /// error whose text contains `why`, and error() returns that text.
  virtual void abort(const std::string& why) noexcept = 0;
};

/// Batches the sends and receives issued between its construction and submit(). If an exception
/// propagates before submit(), the destructor ends the NCCL group, because a group left open on
/// this thread would keep all later operations from being submitted.
class GpuGroup {
 public:
  explicit GpuGroup(GpuCommunicator& communicator) : communicator_(&communicator) {
    communicator.begin_group();
  }
  ~GpuGroup() {
    if (communicator_ == nullptr) return;
    try {
      communicator_->end_group();
    } catch (const std::exception&) {  // another exception is already propagating
    }
  }
  GpuGroup(const GpuGroup&) = delete;
  GpuGroup& operator=(const GpuGroup&) = delete;

  void submit() { std::exchange(communicator_, nullptr)->end_group(); }

 private:
  GpuCommunicator* communicator_;
};

}  // namespace lockstep
