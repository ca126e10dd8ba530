#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "core/device/event.h"

namespace lockstep {

/// The marks on a GPU queue before and after the copy of a message's bytes; null on the CPU.
struct Marks {
  MarkPtr begun, done;
};

/// Owns the GPU queue on which one agent (a rank's own thread, or a worker) copies its messages
/// while the compute stream continues.
class GpuQueue {
 public:
  explicit GpuQueue(Gpu& gpu) : gpu_(gpu), queue_(gpu.make_queue(/*urgent=*/true)) {}
  ~GpuQueue() { gpu_.drop_queue(queue_); }
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  Gpu& gpu() const { return gpu_; }
  Queue handle() const { return queue_; }
  MarkPtr record() const { return gpu_.record(queue_); }
  /// Keeps work enqueued after this call from starting before `event`.
  void wait(const Event& event) const {
    if (event.mark) gpu_.wait(queue_, *event.mark);
  }
  /// Blocks the host until all enqueued work is done.
  void synchronise() const {
    const MarkPtr mark = record();
    while (!gpu_.passed(*mark)) std::this_thread::sleep_for(std::chrono::microseconds{20});
  }

 private:
  Gpu& gpu_;
  Queue queue_;
};

}  // namespace lockstep
