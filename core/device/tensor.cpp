#include "core/device/tensor.h"

namespace lockstep {

Tensor::Tensor(Memory& memory, Shape shape, MemoryCategory category, DType dtype)
    : view_(nullptr, shape, dtype) {
  storage_ = std::make_shared<Storage>(memory, view_.bytes(), category);
  view_.data = storage_->data;
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
