#pragma once

#include <memory>

#include "core/device/stream.h"

namespace lockstep {

/// What a Work waits for. Destroying it withdraws what has not happened yet.
class Task {
 public:
  virtual ~Task() = default;
  /// Blocks until it is done and returns when that was (on a GPU: until it is known when it will
  /// be). Throws RunError as Pending::wait does.
  virtual Event finish() = 0;
};

/// Communication that was started. Moves, does not copy. wait() makes the compute stream go on no
/// earlier than its end; the buffers belong to it until then, and must outlive it: where both are
/// members, the buffer is declared first. Belongs to the rank's own thread.
///
/// Every Work is waited for. One that is dropped before, as where an exception passes, withdraws
/// what has not happened yet, so that its buffers may be freed; but ranks no longer agree on what
/// was sent then, and the run can't go on.
class [[nodiscard]] Work {
 public:
  Work() = default;
  Work(Work&& other) noexcept { *this = std::move(other); }
  Work& operator=(Work&& other) noexcept;
  Work(Stream& compute, Span span, std::unique_ptr<Task> task);
  /// Work that was over at `done` when it was asked for.
  Work(Stream& compute, Span span, Event done);

  /// Blocks until it is done, on a GPU only the compute stream; on the modelled clock the compute
  /// stream takes the later of its own time and the communication's. Time spent so is a `wait`
  /// span.
  void wait();
  /// Blocks until it is done and returns when that was, without holding the compute stream up. On a
  /// GPU its buffers may be released once the compute stream follows that (Stream::follow).
  Event finish();
  explicit operator bool() const { return compute_ != nullptr; }

 private:
  Stream* compute_ = nullptr;
  Span span_;
  std::unique_ptr<Task> task_;
  Event done_;
};

}  // namespace lockstep
