#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace lockstep {

/// One rank's blocks of host memory. A block that is given back stays idle for the next request of
/// its size, so a training step does not ask the operating system for the same pages again. Idle
/// blocks are bounded: before a new block is taken from the system, those that have been idle for
/// longest go back to it, until used and idle blocks together are within 1/16 of the peak of the
/// used ones. So resident memory follows the account. Blocks from 128 KiB on are mapped one by one,
/// because only then do their pages leave the process when they go back.
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
  /// 4 KiB if it is mapped by itself.
  std::size_t used() const { return used_; }
  std::size_t idle() const { return idle_; }

 private:
  struct Idle {
    void* block;
    std::uint64_t since;  ///< number of the call that gave it back
  };
  /// Returns the blocks that have been idle for longest, until at most `bytes` are idle.
  void shrink_idle(std::size_t bytes) noexcept;

  std::map<std::size_t, std::deque<Idle>> by_size_;  ///< each from the longest idle
  std::size_t used_ = 0, peak_ = 0, idle_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace lockstep
