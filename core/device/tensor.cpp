#include "core/device/tensor.h"

namespace lockstep {

Tensor::Tensor(Memory& memory, Shape shape, MemoryCategory category, DType dtype, const char* kind)
    : view_(nullptr, shape, dtype) {
  storage_ = std::make_shared<Storage>(memory, view_.bytes(), memory.charge_of(category, kind));
  view_.data = storage_->data;
}

Tensor Tensor::with_aligned_rows(Memory& memory, Shape shape, MemoryCategory category, DType dtype,
                                 const char* kind) {
  if (memory.device() != DeviceKind::cuda) return Tensor{memory, shape, category, dtype, kind};
  const auto step = static_cast<std::int64_t>(16 / size_of(dtype));
  Tensor tensor;
  tensor.view_ = View{nullptr, shape, dtype};
  tensor.view_.row_stride = (shape.last() + step - 1) / step * step;
  const auto padding =
      static_cast<std::size_t>(shape.rows() * (tensor.view_.row_stride - shape.last()));
  tensor.storage_ = std::make_shared<Storage>(
      memory, tensor.view_.bytes(), memory.charge_of(category, kind), padding * size_of(dtype));
  tensor.view_.data = tensor.storage_->data;
  return tensor;
}

void Tensor::reset() noexcept {
  storage_.reset();
  view_ = View{};
}

Tensor Tensor::share() const {
  Tensor other;
  other.storage_ = storage_;
  other.view_ = view_;
  return other;
}

void Tensor::charge_to(MemoryCategory category, const char* kind) {
  if (!storage_) return;
  Memory& memory = *storage_->memory;
  storage_->recharge(
      kind != nullptr
          ? memory.charge_of(category, kind)
          : MemoryCharge{category, memory.parts().in_category(storage_->charge.part, category)});
}

void Tensor::call(const char* kind) {
  if (storage_) storage_->recharge(storage_->memory->charge_of(storage_->charge.category, kind));
}

void Tensor::swap(Tensor& other) noexcept {
  std::swap(storage_, other.storage_);
  std::swap(view_, other.view_);
}

}  // namespace lockstep
