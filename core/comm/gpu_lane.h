#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <thread>
#include <utility>

#include "core/device/event.h"

namespace lockstep {

/// When a message's bytes were moved on a GPU's own queue; empty on the CPU.
struct Marks {
  MarkPtr begun, done;
};

/// A communication stream on a GPU: the queue on which one agent (the rank's own thread, or a
/// worker) moves its messages while the compute stream goes on. Belongs to that agent.
class GpuLane {
 public:
  explicit GpuLane(Gpu& gpu) : gpu_(gpu), queue_(gpu.make_queue(/*urgent=*/true)) {}
  ~GpuLane() { gpu_.drop_queue(queue_); }
  GpuLane(const GpuLane&) = delete;
  GpuLane& operator=(const GpuLane&) = delete;

  Gpu& gpu() const { return gpu_; }
  Queue queue() const { return queue_; }
  MarkPtr record() const { return gpu_.record(queue_); }
  /// What is put on this lane from now on begins after `event`.
  void wait(const Event& event) const {
    if (event.mark) gpu_.wait(queue_, *event.mark);
  }
  /// The host waits for all that is on it.
  void synchronise() const {
    const MarkPtr mark = record();
    while (!gpu_.passed(*mark)) std::this_thread::sleep_for(std::chrono::microseconds{20});
  }

 private:
  Gpu& gpu_;
  Queue queue_;
};

/// Host memory that a GPU copies from and to while the host goes on; in no account, which is of the
/// GPU's. Belongs to one agent.
class PinnedBuffers {
 public:
  explicit PinnedBuffers(Gpu& gpu) : gpu_(gpu) {}
  ~PinnedBuffers() {
    for (const Buffer& each : idle_) gpu_.release_pinned(each.data);
  }
  PinnedBuffers(const PinnedBuffers&) = delete;
  PinnedBuffers& operator=(const PinnedBuffers&) = delete;

  struct Buffer {
    std::byte* data = nullptr;
    std::size_t size = 0;
    MarkPtr used_until;  ///< a copy that still uses it; none: nobody
  };
  /// Of at least `bytes`: one that is not used any more, or a new one.
  Buffer take(std::size_t bytes) {
    for (auto each = idle_.begin(); each != idle_.end(); ++each) {
      if (each->size < bytes || (each->used_until && !gpu_.passed(*each->used_until))) continue;
      Buffer found = std::move(*each);
      idle_.erase(each);
      return found;
    }
    return {static_cast<std::byte*>(gpu_.allocate_pinned(bytes)), bytes, nullptr};
  }
  void give_back(Buffer buffer) { idle_.push_back(std::move(buffer)); }

 private:
  Gpu& gpu_;
  std::deque<Buffer> idle_;
};

}  // namespace lockstep
