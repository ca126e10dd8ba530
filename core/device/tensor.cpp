#include "core/device/tensor.h"

namespace lockstep {

Tensor::Tensor(Memory& memory, Shape shape, MemoryCategory category, DType dtype)
    : memory_(&memory), category_(category), view_(nullptr, shape, dtype) {
  view_.data = memory.allocate(view_.bytes(), category);
}

void Tensor::reset() noexcept {
  if (memory_ != nullptr) memory_->release(view_.data, view_.bytes(), category_);
  memory_ = nullptr;
  view_ = View{};
}

void Tensor::charge_to(MemoryCategory category) {
  if (memory_ != nullptr) memory_->recharge(view_.bytes(), category_, category);
  category_ = category;
}

void Tensor::swap(Tensor& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(category_, other.category_);
  std::swap(view_, other.view_);
}

}  // namespace lockstep
