#pragma once

#include <memory>

#include "core/device/stream.h"

namespace lockstep {

/// The operation behind a Work. Destroying it withdraws whatever has not happened yet.
class Task {
 public:
  virtual ~Task() = default;
  /// Blocks until it is done and returns its end (on a GPU: until its completion event is known).
  /// Throws RunError as Pending::wait does.
  virtual Event finish() = 0;
};

/// Communication in flight. Move-only. wait() keeps the compute stream from continuing before it
/// has ended. Until then it owns the buffers, which must outlive it: if both are members, declare
/// the buffer first. Belongs to the rank's own thread.
///
/// Every Work must be waited for. If it is dropped earlier, for example by an exception, it
/// withdraws whatever has not happened yet, so that its buffers may be freed; but the ranks then no
/// longer agree on the messages, and the run cannot continue.
class [[nodiscard]] Work {
 public:
  Work() = default;
  Work(Work&& other) noexcept { *this = std::move(other); }
  Work& operator=(Work&& other) noexcept;
  Work(Stream& compute, Span span, std::unique_ptr<Task> task);
  /// Work that was already over, at `done`, when it was issued.
  Work(Stream& compute, Span span, Event done);

  /// Blocks until it is done; on a GPU it blocks only the compute stream. On the modelled clock the
  /// compute stream takes the later of its own time and the communication's. The time spent waiting
  /// becomes a `wait` span.
  void wait();
  /// Blocks until it is done and returns its end, without holding up the compute stream. On a
  /// GPU, its buffers may be released once the compute stream follows that event (Stream::follow).
  Event finish();
  explicit operator bool() const { return compute_ != nullptr; }

 private:
  Stream* compute_ = nullptr;
  Span span_;
  std::unique_ptr<Task> task_;
  Event done_;
};

}  // namespace lockstep
