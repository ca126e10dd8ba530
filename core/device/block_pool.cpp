#include "core/device/block_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "core/base/available_memory.h"

namespace lockstep {

namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t mapped_from = 128 * 1024;
constexpr std::size_t least_bound = 4 * 1024 * 1024;
constexpr std::size_t checked_from = 64 * 1024 * 1024;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

bool is_mapped(std::size_t size) {
  return size >= mapped_from && !sanitized;
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t rounded(std::size_t bytes) {
  const std::size_t unit = is_mapped(bytes) ? page_size() : alignment;
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

/// Moves the first `size` bytes of the pages at `from` to `to`, which must be mapped. Moving is
/// much faster than mapping new pages, which the system fills with zeros. Returns false on failure
/// (before Linux 6.17, if the pages at `from` had themselves been moved there from different
/// blocks); in that case `to` may be unmapped.
bool move_pages(void* from, std::size_t size, void* to) noexcept {
  return ::mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
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
    // Refuses the block, because the system would grant more memory than it has, and would later
    // swap or kill this process.
    if (size >= checked_from &&
        size > static_cast<std::size_t>(available_memory()) + (sanitized ? 0 : idle_))
      throw std::bad_alloc{};
    const std::size_t room = peak + std::max(peak / 32, least_bound) - used;
    block = from_system(size);
    if (block != nullptr && !take_over(block, size, room)) block = from_system(size);
    shrink_idle(room);
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

std::pair<std::size_t, BlockPool::Idle> BlockPool::pop_oldest() noexcept {
  const auto found = std::ranges::min_element(
      by_size_, {}, [](const auto& each) { return each.second.front().since; });
  const std::pair oldest{found->first, found->second.front()};
  found->second.pop_front();
  if (found->second.empty()) by_size_.erase(found);
  idle_ -= oldest.first;
  return oldest;
}

void BlockPool::shrink_idle(std::size_t bytes) noexcept {
  while (idle_ > bytes) {
    const auto [size, oldest] = pop_oldest();
    to_system(oldest.block, size);
  }
}

bool BlockPool::take_over(void* block, std::size_t size, std::size_t bytes) {
  if (!is_mapped(size)) return true;
  auto* to = static_cast<std::byte*>(block);
  while (size > 0 && idle_ > bytes) {
    const auto [whole, oldest] = pop_oldest();
    auto* const from = static_cast<std::byte*>(oldest.block);
    const std::size_t taken = is_mapped(whole) ? std::min(whole, size) : 0;
    if (taken == 0) {
      to_system(from, whole);
      continue;
    }
    if (!move_pages(from, taken, to)) {
      // Another thread may have mapped the `taken` bytes at `to` by now, so they are not unmapped.
      ::munmap(block, static_cast<std::size_t>(to - static_cast<std::byte*>(block)));
      ::munmap(to + taken, size - taken);
      to_system(from, whole);
      return false;
    }
    to += taken;
    size -= taken;
    const std::size_t rest = whole - taken;
    if (is_mapped(rest)) {
      by_size_[rest].push_front({from + taken, oldest.since});
      idle_ += rest;
    } else if (rest > 0) {
      ::munmap(from + taken, rest);
    }
  }
  return true;
}

}  // namespace lockstep
