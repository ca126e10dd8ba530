#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "core/device/event.h"

namespace lockstep {

/// When a message's bytes were copied on a GPU queue; empty on the CPU.
struct Marks {
  MarkPtr begun, done;
};

/// A communication stream on a GPU: the queue on which one agent (the rank's own thread, or a
/// worker) copies its messages while the compute stream continues. Belongs to that agent.
class GpuQueue {
 public:
  explicit GpuQueue(Gpu& gpu) : gpu_(gpu), queue_(gpu.make_queue(/*urgent=*/true)) {}
  ~GpuQueue() { gpu_.drop_queue(queue_); }
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  Gpu& gpu() const { return gpu_; }
  Queue handle() const { return queue_; }
  MarkPtr record() const { return gpu_.record(queue_); }
  /// Work enqueued on this lane from now on starts after `event`.
  void wait(const Event& event) const {
    if (event.mark) gpu_.wait(queue_, *event.mark);
  }
  /// Blocks the host until everything on the lane is done.
  void synchronise() const {
    const MarkPtr mark = record();
    while (!gpu_.passed(*mark)) std::this_thread::sleep_for(std::chrono::microseconds{20});
  }

 private:
  Gpu& gpu_;
  Queue queue_;
};

}  // namespace lockstep
