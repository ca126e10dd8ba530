#pragma once

#include <memory>
#include <utility>

#include "core/device/memory.h"
#include "kernels/view.h"

namespace lockstep {

/// Owns elements on a device, with their shape, dtype, and the memory category that they are
/// charged to. Move-only. The last owner returns the storage to its Memory, and must do so on the
/// Memory's thread. A default-constructed Tensor is empty.
class Tensor {
 public:
  Tensor() = default;
  /// The elements are uninitialized. Throws as Memory::allocate() does. `kind` names the tensor in
  /// reports (MemoryParts::find).
  Tensor(Memory& memory, Shape shape, MemoryCategory category, DType dtype = DType::f32,
         const char* kind = nullptr);
  /// Like the constructor, but on a GPU every row begins at a multiple of 16 bytes, as its fast
  /// matrix products require. The padding at the end of the rows is not charged.
  static Tensor with_aligned_rows(Memory& memory, Shape shape, MemoryCategory category, DType dtype,
                                  const char* kind = nullptr);
  ~Tensor() = default;
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor taken{std::move(other)};
    swap(taken);
    return *this;
  }

  /// Releases the storage now.
  void reset() noexcept;
  /// Returns another owner of this tensor's storage, which is still charged only once. For example,
  /// both a layer and the residual connection around it need the layer's input. Shared storage is
  /// read-only.
  Tensor share() const;
  /// Whether no other Tensor owns the storage, so that it may be overwritten.
  bool sole() const { return storage_.use_count() == 1; }
  /// Charges the storage to another category, for example when a received buffer becomes an
  /// activation. The tensor stays of the same kind unless `kind` is given.
  void charge_to(MemoryCategory category, const char* kind = nullptr);
  /// From now on, reports list the tensor as `kind`, in the layer that is computing. Used by a
  /// layer that keeps another layer's output.
  void call(const char* kind);

  View view() const { return view_; }
  operator View() const { return view_; }
  const Shape& shape() const { return view_.shape; }
  DType dtype() const { return view_.dtype; }
  std::int64_t elements() const { return view_.elements(); }
  std::size_t bytes() const { return view_.bytes(); }
  // Only for tensors on the CPU.
  float* f32() const { return view_.f32(); }
  std::int32_t* i32() const { return view_.i32(); }
  /// True unless the tensor is empty; also true on the meta device, although nothing is allocated.
  explicit operator bool() const { return storage_ != nullptr; }
  Memory* memory() const { return storage_ ? storage_->memory : nullptr; }

 private:
  struct Storage {
    Storage(Memory& memory_, std::size_t bytes_, const MemoryCharge& charge_,
            std::size_t padding = 0)
        : memory(&memory_),
          bytes(bytes_),
          charge(charge_),
          data(memory_.allocate(bytes_, charge_, padding)) {}
    ~Storage() { memory->release(data, bytes, charge); }
    void recharge(const MemoryCharge& to) {
      memory->recharge(bytes, charge, to);
      charge = to;
    }
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    Memory* memory;
    std::size_t bytes;
    MemoryCharge charge;
    void* data;
  };

  void swap(Tensor& other) noexcept;

  std::shared_ptr<Storage> storage_;
  View view_;
};

}  // namespace lockstep
