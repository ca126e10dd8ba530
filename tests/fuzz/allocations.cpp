#include "tests/fuzz/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> bytes_now{0}, bytes_peak{0};

void count(std::size_t bytes) {
  const std::size_t now = bytes_now += bytes;
  if (now > bytes_peak) bytes_peak = now;
}

}  // namespace

// Counts all allocations. With a sanitizer, this happens in its hooks, because it checks that each
// `delete` matches its `new`; otherwise, in `new` and `delete`, which all other forms call.
#ifdef __SANITIZE_ADDRESS__

extern "C" void __sanitizer_malloc_hook(const volatile void* data, std::size_t) {
  count(::malloc_usable_size(const_cast<void*>(data)));
}
extern "C" void __sanitizer_free_hook(const volatile void* data) {
  bytes_now -= ::malloc_usable_size(const_cast<void*>(data));
}

#else

namespace {

void* counted(void* data) {
  if (data == nullptr) throw std::bad_alloc{};
  count(::malloc_usable_size(data));
  return data;
}

void release(void* data) noexcept {
  bytes_now -= ::malloc_usable_size(data);
  std::free(data);
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(std::malloc(size));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto multiple = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(multiple, (size + multiple - 1) / multiple * multiple));
}
void operator delete(void* data) noexcept {
  release(data);
}
void operator delete(void* data, std::size_t) noexcept {
  release(data);
}
void operator delete(void* data, std::align_val_t) noexcept {
  release(data);
}
void operator delete(void* data, std::size_t, std::align_val_t) noexcept {
  release(data);
}

#endif

namespace lockstep::fuzz {

PeakOfAllocations::PeakOfAllocations() : before_(bytes_now) {
  bytes_peak = before_;
}

std::size_t PeakOfAllocations::bytes() const {
  return bytes_peak - before_;
}

}  // namespace lockstep::fuzz
