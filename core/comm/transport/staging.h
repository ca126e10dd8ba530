#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

#include "core/comm/transport/gpu_queue.h"

namespace lockstep {

/// A pool of pinned host buffers, which a GPU reads and writes while the host continues. The memory
/// account does not include these buffers: for a rank on a GPU, it covers only GPU memory. Belongs
/// to one agent.
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
    MarkPtr used_until;  ///< passed when the last copy has finished; null if there was none
  };
  /// Returns an idle buffer of at least `bytes` bytes, or a new one.
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

/// A pinned host buffer for one message whose bytes are on a GPU. The destructor returns the buffer
/// to its pool.
class Staged {
 public:
  Staged() = default;
  Staged(GpuQueue& queue, PinnedBuffers& buffers, std::size_t bytes)
      : queue_(&queue),
        buffers_(&buffers),
        buffer_(buffers.take(std::max<std::size_t>(bytes, 1))) {}
  ~Staged() {
    if (buffers_ != nullptr && buffer_.data != nullptr) buffers_->give_back(std::move(buffer_));
  }
  Staged(Staged&& other) noexcept
      : queue_(other.queue_),
        buffers_(std::exchange(other.buffers_, nullptr)),
        buffer_(std::move(other.buffer_)) {}
  Staged& operator=(Staged&& other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(buffers_, other.buffers_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }

  explicit operator bool() const { return buffers_ != nullptr; }
  std::byte* data() const { return buffer_.data; }
  /// Copies from the GPU to the buffer once `ready` has occurred, and waits for the copy.
  Marks fetch(const std::byte* from, std::size_t bytes, const Event& ready) {
    Marks marks = copy(buffer_.data, from, bytes, ready);
    queue_->synchronise();
    return marks;
  }
  /// Copies from the buffer to the GPU once `free` has occurred, without waiting.
  Marks deliver(std::byte* to, std::size_t bytes, const Event& free) {
    Marks marks = copy(to, buffer_.data, bytes, free);
    buffer_.used_until = marks.done;
    return marks;
  }
  /// Leaks the buffer, because MPI may still access it.
  void leave() { buffers_ = nullptr; }

 private:
  Marks copy(std::byte* to, const std::byte* from, std::size_t bytes, const Event& after) const {
    queue_->wait(after);
    Marks marks{.begun = queue_->record(), .done = nullptr};
    if (bytes > 0) queue_->gpu().copy(queue_->handle(), to, from, bytes);
    marks.done = queue_->record();
    return marks;
  }

  GpuQueue* queue_ = nullptr;
  PinnedBuffers* buffers_ = nullptr;
  PinnedBuffers::Buffer buffer_;
};

}  // namespace lockstep
