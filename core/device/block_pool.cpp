#include "core/device/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace lockstep {

namespace {

constexpr std::size_t alignment = 64, page = 4096;
constexpr std::size_t mapped_from = 128 * 1024;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

bool is_mapped(std::size_t size) {
  return size >= mapped_from && !sanitized;
}

std::size_t rounded(std::size_t bytes) {
  const std::size_t unit = is_mapped(bytes) ? page : alignment;
  return (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit;
}

void* from_system(std::size_t size) {
  if (!is_mapped(size)) return std::aligned_alloc(alignment, size);
  void* block = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? nullptr : block;
}

void to_system(void* block, std::size_t size) noexcept {
  if (is_mapped(size))
    ::munmap(block, size);
  else
    std::free(block);
}

}  // namespace

void* BlockPool::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const std::size_t used = used_ + size, peak = std::max(peak_, used);
  void* block = nullptr;
  if (const auto found = by_size_.find(size); found != by_size_.end()) {
    block = found->second.back().block;
    found->second.pop_back();
    if (found->second.empty()) by_size_.erase(found);
    idle_ -= size;
  } else {
    shrink_idle(peak + peak / 16 - used);
    block = from_system(size);
    if (block == nullptr) throw std::bad_alloc{};
  }
  used_ = used;
  peak_ = peak;
  return block;
}

void BlockPool::give_back(void* block, std::size_t bytes) noexcept {
  const std::size_t size = rounded(bytes);
  used_ -= size;
  if (sanitized) {
    to_system(block, size);
  } else {
    by_size_[size].push_back({block, calls_++});
    idle_ += size;
  }
}

void BlockPool::shrink_idle(std::size_t bytes) noexcept {
  while (idle_ > bytes) {
    const auto oldest = std::ranges::min_element(
        by_size_, {}, [](const auto& each) { return each.second.front().since; });
    to_system(oldest->second.front().block, oldest->first);
    idle_ -= oldest->first;
    oldest->second.pop_front();
    if (oldest->second.empty()) by_size_.erase(oldest);
  }
}

}  // namespace lockstep
