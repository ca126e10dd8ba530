#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/memory_use.h"
#include "core/device/block_pool.h"
#include "kernels/kernels.h"

namespace lockstep {

class Gpu;

enum class DeviceKind : std::uint8_t {
  cpu,
  cuda,
  meta,  ///< allocates and computes nothing, but counts memory and charges compute as usual
};

/// One rank's memory. Allocates storage on the rank's device, and accounts for it by category.
/// Belongs to the rank's thread. The account counts only memory in use; on the CPU, a bounded
/// number of idle bytes also stays resident (BlockPool).
class Memory {
 public:
  explicit Memory(DeviceKind device = DeviceKind::cpu) : device_(device) {}
  /// Creates the memory of a rank on a GPU. Allocates from the GPU's stream-ordered pool, in stream
  /// order on `queue`. Before the caller releases a block that another queue uses, it must make
  /// `queue` wait for that use (Stream::follow).
  Memory(Gpu& gpu, Queue queue) : device_(DeviceKind::cuda), gpu_(&gpu), queue_(queue) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  DeviceKind device() const { return device_; }
  /// Returns uninitialized memory, 64-byte aligned (256 on a GPU), or null on the meta device.
  /// If memory is exhausted, throws std::runtime_error; its message shows the memory use.
  /// `padding` more bytes are allocated and not charged.
  void* allocate(std::size_t bytes, MemoryCategory category, std::size_t padding = 0);
  void release(void* data, std::size_t bytes, MemoryCategory category) noexcept;

  /// Moves a charge from one category to another; the total stays the same.
  void recharge(std::size_t bytes, MemoryCategory from, MemoryCategory to);

  const MemoryUse& current() const { return current_; }
  /// The peak of each category. The peaks may be from different times, so their total() may exceed
  /// peak_total().
  const MemoryUse& peak() const { return peak_; }
  /// The peak of the total over all categories.
  std::int64_t peak_total() const { return peak_total_; }
  /// Resets the peaks to the current use.
  void reset_peak();
  /// Returns idle CPU memory to the operating system. A GPU's pool keeps its idle memory.
  void release_idle() noexcept { blocks_.release_idle(); }

 private:
  void charge(std::size_t bytes, MemoryCategory category);
  void* allocate_on_host(std::size_t bytes, MemoryCategory category);
  void* allocate_on_gpu(std::size_t bytes, MemoryCategory category) const;

  DeviceKind device_;
  Gpu* gpu_ = nullptr;
  Queue queue_;
  MemoryUse current_, peak_;
  std::int64_t peak_total_ = 0;
  BlockPool blocks_;  ///< on the CPU
};

}  // namespace lockstep
