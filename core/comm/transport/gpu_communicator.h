#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/kernels.h"

namespace lockstep {

/// An ordered set of ranks with one GPU each, and NCCL's operations between them (core/comm/nccl).
/// All operations enqueue their work and return; all members call the same operations in the same
/// order. Views are contiguous and of f32, bf16, f16 or i32. Members are numbered within the
/// communicator. All operations throw std::runtime_error if NCCL reports an error.
class GpuCommunicator {
 public:
  virtual ~GpuCommunicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Members that pass the same color >= 0 form a new communicator, ordered by `key`
  /// (ncclCommSplit). All members call it together; a member that passes -1 gets null.
  virtual std::unique_ptr<GpuCommunicator> split(int color, int key) = 0;

  /// Sends and receives between these two calls are submitted together; see GpuGroup.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual void send(Queue queue, View data, int to) = 0;
  virtual void receive(Queue queue, View into, int from) = 0;

  virtual void broadcast(Queue queue, View data, int root) = 0;
  /// In place.
  virtual void all_reduce(Queue queue, View data) = 0;
  /// `data` is size() equal chunks; `own`, one of them, receives its sum. The others are unchanged.
  virtual void reduce_scatter(Queue queue, View data, View own) = 0;
  /// `data` is size() equal chunks; this member's own is already in place.
  virtual void all_gather(Queue queue, View data) = 0;
  /// Sums `data` over members into the root's `data`, in place.
  virtual void reduce(Queue queue, View data, int root) = 0;

  /// An asynchronous error, if one has occurred (ncclCommGetAsyncError).
  virtual std::optional<std::string> error() = 0;
  /// Aborts all queued operations (ncclCommAbort), from any thread. The communicator can't be used
  /// afterwards: calls throw an error that contains `why`, and error() returns it.
  virtual void abort(const std::string& why) noexcept = 0;
};

/// Batches the sends and receives issued between its construction and submit(), which submits them.
/// If an exception passes, the destructor still ends the group: a group left open on this thread
/// would hold back all later operations.
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
