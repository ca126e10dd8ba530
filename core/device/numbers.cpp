#include "core/device/numbers.h"

#include "core/device/gpu.h"

namespace lockstep {

DeviceNumbers::DeviceNumbers(Device device, std::size_t count) : compute_(&device.compute) {
  if (Gpu* gpu = compute_->gpu()) {
    const Queue queue = compute_->queue();
    memory_ = {gpu->allocate(count * sizeof(double), queue),
               [gpu, queue](void* data) { gpu->release(data, queue); }};
  } else if (device.memory.device() == DeviceKind::cpu) {
    memory_ = std::make_shared<double[]>(count);
  }
  view_ = View{memory_.get(), {static_cast<std::int64_t>(count), 2}};
}

View DeviceNumbers::at(std::size_t i) const {
  return View{memory_ ? static_cast<double*>(memory_.get()) + i : nullptr, {1, 2}};
}

}  // namespace lockstep
