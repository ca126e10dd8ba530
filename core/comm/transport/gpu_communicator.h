#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/kernels.h"

namespace lockstep {

/// An ordered set of ranks, each with a GPU of its own, and NCCL's operations between them
/// (core/comm/nccl). All put their work on a queue and return; all members call the same operations
/// in the same order. Views are contiguous, of f32, bf16, f16 or i32. Members are counted within
/// the communicator. All throw std::runtime_error as NCCL reports errors.
class GpuCommunicator {
 public:
  virtual ~GpuCommunicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Members of this one that give the same color >= 0 make a communicator of their own, in order
  /// of `key` (ncclCommSplit). All members call it together; -1 makes none, and returns null.
  virtual std::unique_ptr<GpuCommunicator> split(int color, int key) = 0;

  /// Sends and receives between the two go on together; see GpuGroup.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual void send(Queue queue, View data, int to) = 0;
  virtual void receive(Queue queue, View into, int from) = 0;

  virtual void broadcast(Queue queue, View data, int root) = 0;
  /// In place.
  virtual void all_reduce(Queue queue, View data) = 0;
  /// `data` is size() equal chunks; `own`, one of them, receives its sum. The others stay.
  virtual void reduce_scatter(Queue queue, View data, View own) = 0;
  /// `data` is size() equal chunks; this member's is already in its place.
  virtual void all_gather(Queue queue, View data) = 0;
  /// The sum over members of `data` to the root's `data`; in place.
  virtual void reduce(Queue queue, View data, int root) = 0;

  /// What has gone wrong since, if anything has (ncclCommGetAsyncError).
  virtual std::optional<std::string> error() = 0;
  /// Aborts all queued operations (ncclCommAbort), from any thread. The communicator can't be used
  /// afterwards: calls throw an error that contains `why`, and error() returns it.
  virtual void abort(const std::string& why) noexcept = 0;
};

/// Between its making and go() sends and receives are gathered, which then go on together. Where an
/// exception passes it is ended all the same: what is gathered is the thread's, and would hold back
/// whatever comes next.
class GpuGroup {
 public:
  explicit GpuGroup(GpuCommunicator& communicator) : communicator_(&communicator) {
    communicator.begin_group();
  }
  ~GpuGroup() {
    if (communicator_ == nullptr) return;
    try {
      communicator_->end_group();
    } catch (const std::exception&) {  // one is on its way already
    }
  }
  GpuGroup(const GpuGroup&) = delete;
  GpuGroup& operator=(const GpuGroup&) = delete;

  void go() { std::exchange(communicator_, nullptr)->end_group(); }

 private:
  GpuCommunicator* communicator_;
};

}  // namespace lockstep
