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
  meta,  ///< allocates and computes nothing, but counts and charges everything
};

/// One rank's memory: hands out storage on its device and keeps the account. Belongs to the rank's
/// thread. The account counts only memory in use; on the CPU a bounded number of idle bytes stays
/// resident as well (BlockPool).
class Memory {
 public:
  explicit Memory(DeviceKind device = DeviceKind::cpu) : device_(device) {}
  /// A GPU's, from its stream-ordered pool: blocks come and go in the order of `queue`. Who uses
  /// one on another queue lets `queue` wait for that before it is released (Stream::follow).
  Memory(Gpu& gpu, Queue queue) : device_(DeviceKind::cuda), gpu_(&gpu), queue_(queue) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  DeviceKind device() const { return device_; }
  /// Uninitialised, 64-byte aligned (256 on a GPU); null on the meta device. Throws
  /// std::bad_alloc; where a GPU has no more, std::runtime_error, which says what is where.
  void* allocate(std::size_t bytes, MemoryCategory category);
  void release(void* data, std::size_t bytes, MemoryCategory category) noexcept;

  /// Moves a charge from one category to another; the total stays.
  void recharge(std::size_t bytes, MemoryCategory from, MemoryCategory to);

  const MemoryUse& current() const { return current_; }
  /// The highest of each category on its own; the parts of total() may come from different moments.
  const MemoryUse& peak() const { return peak_; }
  /// The highest of all categories together.
  std::int64_t peak_total() const { return peak_total_; }
  /// Peaks start again from what is in use now.
  void reset_peak();
  /// Returns idle memory of the CPU to the operating system. A GPU's pool keeps its own.
  void release_idle() noexcept { blocks_.release_idle(); }

 private:
  void charge(std::size_t bytes, MemoryCategory category);
  void* allocate_on_gpu(std::size_t bytes, MemoryCategory category) const;

  DeviceKind device_;
  Gpu* gpu_ = nullptr;
  Queue queue_;
  MemoryUse current_, peak_;
  std::int64_t peak_total_ = 0;
  BlockPool blocks_;  ///< on the CPU
};

}  // namespace lockstep
