#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace lockstep {

/// One rank's blocks of host memory. A block that is given back stays idle for the next request of
/// its size, so a training step does not ask the operating system for the same pages again. Idle
/// blocks are bounded: a new block takes over the pages of those that have been idle for longest,
/// or these go back to the system, until used and idle blocks together exceed the peak of the used
/// ones by at most 1/32, or 4 MiB if that is more. So resident memory follows the account. Blocks
/// from 128 KiB on are mapped one by one, because only then can their pages leave the process.
///
/// For one thread. Under a sanitizer nothing stays idle: it finds uses after release only if memory
/// is released.
class BlockPool {
 public:
  BlockPool() = default;
  ~BlockPool() { release_idle(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Uninitialised, 64-byte aligned. Throws std::bad_alloc.
  void* take(std::size_t bytes);
  /// A block of take(bytes).
  void give_back(void* block, std::size_t bytes) noexcept;

  /// Returns all idle blocks to the system.
  void release_idle() noexcept { shrink_idle(0); }
  /// The peak, which bounds idle blocks, starts again from what is in use now.
  void reset_peak() { peak_ = used_; }

  /// Bytes of blocks in use and of idle ones: a block is its request, rounded up to 64 bytes, or to
  /// pages if it is mapped by itself.
  std::size_t used() const { return used_; }
  std::size_t idle() const { return idle_; }

 private:
  struct Idle {
    void* block;
    std::uint64_t since;  ///< number of the call that gave it back
  };
  std::pair<std::size_t, Idle> pop_oldest() noexcept;
  /// Returns the blocks that have been idle for longest, until at most `bytes` are idle.
  void shrink_idle(std::size_t bytes) noexcept;
  /// Moves their pages to the new `block` of `size` instead, as far as that needs them. False if
  /// the system can't: `block` has then been returned.
  bool take_over(void* block, std::size_t size, std::size_t bytes);

  std::map<std::size_t, std::deque<Idle>> by_size_;  ///< each from the longest idle
  std::size_t used_ = 0, peak_ = 0, idle_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace lockstep
