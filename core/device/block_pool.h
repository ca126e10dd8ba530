#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace lockstep {

/// One rank's pool of host memory blocks. A released block stays idle for the next request of its
/// size, so that training steps do not keep requesting and returning the same pages. The number of
/// idle bytes is bounded: used and idle blocks together exceed the peak of used bytes by at most
/// 1/32 of that peak, or by 4 MiB if that is more. To stay within the bound, a new block takes over
/// the pages of the blocks that have been idle longest, or the pool returns those pages to the
/// system. Resident memory therefore follows the memory account. Each block of 128 KiB or more has
/// its own mapping, so that its pages can be returned.
///
/// Not thread-safe. Sanitizer builds keep no idle blocks, because a sanitizer detects a use after
/// release only if the memory has actually been freed.
class BlockPool {
 public:
  BlockPool() = default;
  ~BlockPool() { release_idle(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Returns uninitialized memory, 64-byte aligned. Throws std::bad_alloc if memory is exhausted,
  /// or if a large block exceeds the available memory: otherwise the system would grant the block
  /// and later kill the process.
  void* take(std::size_t bytes);
  /// Releases a block that take(bytes) returned.
  void give_back(void* block, std::size_t bytes) noexcept;

  /// Returns all idle blocks to the system.
  void release_idle() noexcept { shrink_idle(0); }
  /// Resets the peak, which bounds the idle blocks, to the bytes in use now.
  void reset_peak() { peak_ = used_; }

  // Bytes in used and in idle blocks. A block's size is the request rounded up to a multiple of 64
  // bytes, or of the page size if the block is mapped.
  std::size_t used() const { return used_; }
  std::size_t idle() const { return idle_; }

 private:
  struct Idle {
    void* block;
    std::uint64_t since;  ///< number of the give_back() call that released the block
  };
  std::pair<std::size_t, Idle> pop_oldest() noexcept;
  /// Returns the blocks that have been idle longest to the system, until at most `bytes` are idle.
  void shrink_idle(std::size_t bytes) noexcept;
  /// Reduces the idle blocks to at most `bytes`, as shrink_idle() does, but moves their pages to
  /// the new `block` of `size` bytes as far as they fit. Returns false if the system cannot move
  /// pages; in that case `block` has been unmapped.
  bool take_over(void* block, std::size_t size, std::size_t bytes);

  std::map<std::size_t, std::deque<Idle>>
      by_size_;  ///< each list starts with the block that has been idle longest
  std::size_t used_ = 0, peak_ = 0, idle_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace lockstep
