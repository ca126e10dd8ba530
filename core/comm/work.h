#pragma once

#include <memory>
#include <utility>

#include "core/device/stream.h"

namespace lockstep {

/// The operation behind a Work. The destructor cancels the part that has not happened yet.
class Task {
 public:
  virtual ~Task() = default;
  /// Blocks until the operation is done, or on a GPU until it is queued, and returns the event at
  /// which it ends. Throws RunError as Pending::wait() does.
  virtual Event finish() = 0;
  /// Blocks until the operation no longer uses its buffers, and returns an event after which they
  /// may be released on a GPU.
  virtual Event release() { return finish(); }
};

/// A communication operation in flight. Move-only. wait() keeps the compute stream from continuing
/// before the operation has ended. The operation uses its buffers until it has ended, so the
/// buffers must outlive the Work: if a buffer and its Work are members of a class, declare the
/// buffer first. Belongs to the rank's own thread.
///
/// Every Work must be waited for. A Work that is destroyed earlier, for example by an exception,
/// cancels the part that has not happened yet, so that its buffers may be freed. After that the
/// ranks no longer agree on their messages, so their groups and channels are of no further use.
class [[nodiscard]] Work {
 public:
  Work() = default;
  Work(Work&& other) noexcept { *this = std::move(other); }
  Work& operator=(Work&& other) noexcept;
  Work(Stream& compute, Span span, std::unique_ptr<Task> task);
  /// An operation that ends at `done` and needs no further host work.
  Work(Stream& compute, Span span, Event done);

  /// Names the recorded operation that wait() waits for. Returns the Work itself.
  Work&& recorded_as(OperationLog::Issued issued) && {
    recorded_ = issued;
    return std::move(*this);
  }

  /// Blocks until the operation is done; on a GPU, blocks only the compute stream. On the modelled
  /// clock, the compute stream's time becomes the operation's end, unless it is already later. The
  /// time spent waiting becomes a `wait` span.
  void wait();
  /// Blocks until the operation is done and returns the event at which it ended, without holding up
  /// the compute stream. On a GPU, the buffers may be released after Stream::follow() with that
  /// event.
  Event finish();
  /// Blocks until the buffers may be released. Does not hold up the compute stream.
  void release();
  explicit operator bool() const { return compute_ != nullptr; }

 private:
  Stream* compute_ = nullptr;
  Span span_;
  std::unique_ptr<Task> task_;
  Event done_;
  OperationLog::Issued recorded_ = OperationLog::not_recorded;
};

}  // namespace lockstep
