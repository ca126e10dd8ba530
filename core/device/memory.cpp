#include "core/device/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "core/base/available_memory.h"
#include "core/device/gpu.h"

namespace lockstep {

void* Memory::allocate(std::size_t bytes, const MemoryCharge& to, std::size_t padding) {
  if (padding > 0 && device_ == DeviceKind::cpu)
    throw std::logic_error("Memory::allocate: only a GPU's rows are padded");
  void* data = nullptr;
  if (device_ == DeviceKind::cuda) {
    data = allocate_on_gpu(std::max<std::size_t>(bytes + padding, 1), to.category);
  } else if (device_ == DeviceKind::cpu) {
    data = allocate_on_host(bytes, to.category);
  }
  charge(bytes, to);
  return data;
}

void* Memory::allocate_on_host(std::size_t bytes, MemoryCategory category) {
  try {
    return blocks_.take(bytes);
  } catch (const std::bad_alloc&) {
    throw std::runtime_error(fmt::format(
        "out of memory: can't allocate {} for {}; {} are available, and this rank holds {}; use a "
        "smaller model or --batch, fewer ranks per host, or --device meta",
        text_of_bytes(static_cast<double>(bytes)), name_of(category),
        text_of_bytes(static_cast<double>(available_memory())),
        text_of_bytes(static_cast<double>(current_.total()))));
  }
}

void* Memory::allocate_on_gpu(std::size_t bytes, MemoryCategory category) const {
  try {
    return gpu_->allocate(bytes, queue_);
  } catch (const std::bad_alloc&) {
    constexpr double MB = 1e6;
    throw std::runtime_error(fmt::format(
        "GPU {}: out of memory: can't allocate {:.1f} MB for {}; {:.1f} of its {:.1f} MB are in "
        "use, "
        "{:.1f} of them by this rank; use a smaller --batch or more --microbatches",
        gpu_->index(), static_cast<double>(bytes) / MB, name_of(category),
        static_cast<double>(gpu_->memory_in_use()) / MB,
        static_cast<double>(gpu_->info().memory) / MB, static_cast<double>(current_.total()) / MB));
  }
}

void Memory::release(void* data, std::size_t bytes, const MemoryCharge& from) noexcept {
  parts_.release(from.part, static_cast<std::int64_t>(bytes));
  current_.bytes[static_cast<std::size_t>(from.category)] -= static_cast<std::int64_t>(bytes);
  if (data == nullptr) return;
  if (device_ == DeviceKind::cuda)
    gpu_->release(data, queue_);
  else
    blocks_.give_back(data, bytes);
}

void Memory::recharge(std::size_t bytes, const MemoryCharge& from, const MemoryCharge& to) {
  parts_.move(from.part, to.part, static_cast<std::int64_t>(bytes));
  if (from.category == to.category) return;
  current_.bytes[static_cast<std::size_t>(from.category)] -= static_cast<std::int64_t>(bytes);
  count(bytes, to.category);
}

void Memory::charge(std::size_t bytes, const MemoryCharge& to) {
  count(bytes, to.category);
  parts_.charge(to.part, static_cast<std::int64_t>(bytes), current_.total());
}

void Memory::count(std::size_t bytes, MemoryCategory category) {
  const auto index = static_cast<std::size_t>(category);
  current_.bytes[index] += static_cast<std::int64_t>(bytes);
  peak_.bytes[index] = std::max(peak_.bytes[index], current_.bytes[index]);
  peak_total_ = std::max(peak_total_, current_.total());
}

void Memory::reset_peak() {
  peak_ = current_;
  peak_total_ = current_.total();
  parts_.reset_peak();
  blocks_.reset_peak();
}

}  // namespace lockstep
