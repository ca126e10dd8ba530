#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/base/memory_use.h"
#include "core/device/block_pool.h"
#include "core/device/memory_parts.h"
#include "kernels/kernels.h"

namespace lockstep {

class Gpu;

enum class DeviceKind : std::uint8_t {
  cpu,
  cuda,
  meta,  ///< allocates and computes nothing, but counts memory and charges compute as usual
};

/// The account that memory is charged to: a category, and a part of it.
struct MemoryCharge {
  /// Charges the category's unnamed part.
  MemoryCharge(MemoryCategory category_)
      : category(category_), part(MemoryParts::unnamed(category_)) {}
  MemoryCharge(MemoryCategory category_, MemoryParts::Id part_)
      : category(category_), part(part_) {}
  MemoryCategory category;
  MemoryParts::Id part;
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
  /// Returns uninitialized memory, 64-byte aligned (256 on a GPU), or null on the meta device. If
  /// memory is exhausted, throws std::runtime_error; its message shows the memory use. Also
  /// allocates `padding` bytes, which are not charged.
  void* allocate(std::size_t bytes, const MemoryCharge& charge, std::size_t padding = 0);
  void release(void* data, std::size_t bytes, const MemoryCharge& charge) noexcept;

  /// Moves bytes from one charge to another; the total stays the same.
  void recharge(std::size_t bytes, const MemoryCharge& from, const MemoryCharge& to);

  /// Returns the charge of one kind of tensor (MemoryParts::find) in the layer that is computing.
  MemoryCharge charge_of(MemoryCategory category, const char* kind) {
    return {category, parts_.find(category, kind, layer_)};
  }
  MemoryParts& parts() { return parts_; }

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
  friend class MemoryLayer;

  void charge(std::size_t bytes, const MemoryCharge& to);
  void count(std::size_t bytes, MemoryCategory category);
  void* allocate_on_host(std::size_t bytes, MemoryCategory category);
  void* allocate_on_gpu(std::size_t bytes, MemoryCategory category) const;

  DeviceKind device_;
  Gpu* gpu_ = nullptr;
  Queue queue_;
  MemoryUse current_, peak_;
  std::int64_t peak_total_ = 0;
  MemoryParts parts_;
  int layer_ = -1;    ///< the block that is computing, for new tensors
  BlockPool blocks_;  ///< on the CPU
};

/// While this object exists, new tensors are charged to `layer`.
class MemoryLayer {
 public:
  MemoryLayer(Memory& memory, int layer)
      : memory_(memory), before_(std::exchange(memory.layer_, layer)) {}
  ~MemoryLayer() { memory_.layer_ = before_; }
  MemoryLayer(const MemoryLayer&) = delete;
  MemoryLayer& operator=(const MemoryLayer&) = delete;

 private:
  Memory& memory_;
  int before_;
};

}  // namespace lockstep
