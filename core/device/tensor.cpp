#include "core/device/tensor.h"

namespace lockstep {

Tensor::Tensor(Memory& memory, Shape shape, MemoryCategory category, DType dtype)
    : view_(nullptr, shape, dtype) {
  storage_ = std::make_shared<Storage>(memory, view_.bytes(), category);
  view_.data = storage_->data;
}

Tensor Tensor::with_aligned_rows(Memory& memory, Shape shape, MemoryCategory category,
                                 DType dtype) {
  if (memory.device() != DeviceKind::cuda) return Tensor{memory, shape, category, dtype};
  const auto step = static_cast<std::int64_t>(16 / size_of(dtype));
  Tensor tensor;
  tensor.view_ = View{nullptr, shape, dtype};
  tensor.view_.row_stride = (shape.last() + step - 1) / step * step;
  const auto padding =
      static_cast<std::size_t>(shape.rows() * (tensor.view_.row_stride - shape.last()));
  tensor.storage_ =
      std::make_shared<Storage>(memory, tensor.view_.bytes(), category, padding * size_of(dtype));
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

void Tensor::charge_to(MemoryCategory category) {
  if (!storage_) return;
  storage_->memory->recharge(storage_->bytes, storage_->category, category);
  storage_->category = category;
}

void Tensor::swap(Tensor& other) noexcept {
  std::swap(storage_, other.storage_);
  std::swap(view_, other.view_);
}

}  // namespace lockstep
