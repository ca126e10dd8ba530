#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emulator {

/// Ends the process with a one-line message. Called for mistakes that would give wrong numbers on a
/// GPU, or would not be noticed there at all.
[[noreturn]] void give_up(const std::string& what);

enum class Where { pageable, pinned, gpu };

/// The smallest id of a stream that a program creates.
inline constexpr std::uintptr_t first_stream_id = 0x1000;

/// The emulated memory: an address arena per GPU, and pinned host memory. Each block has two
/// states. The host's state (handed out or not) changes at the host's call; the streams' state
/// (valid or not) changes when a stream reaches the queued call. All functions are called under the
/// machine's lock, or by work that runs on a stream.
///
/// Blocks are filled with 0xFF bytes (NaN as f32, f16 and bf16, -1 as i32) when they become valid
/// and after they are freed. They have guard bytes on both sides, which are checked when the block
/// is freed.
class Memory {
 public:
  Memory(int devices, std::size_t bytes_per_device);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Returns a block of `bytes` bytes, or null if the GPU's memory is exhausted. Like CUDA's pools,
  /// it reuses blocks that were freed on the same stream, even if that stream has not reached the
  /// free yet, and blocks that were freed on another stream once that stream has executed the free.
  /// Unless allow_internal_dependencies() forbids it, it also reuses a block whose free another
  /// stream has not reached. It then writes that stream to `waits_for`, and `stream` must wait for
  /// it.
  void* hand_out(int device, std::size_t bytes, std::uintptr_t stream,
                 std::uintptr_t* waits_for = nullptr);
  void allow_internal_dependencies(int device, bool allowed) {
    pools_[static_cast<std::size_t>(device)].internal_dependencies = allowed;
  }
  /// Whether hand_out() would have to take memory from the system for `bytes` more bytes: whether
  /// the pool would then hold more bytes than ever before.
  bool must_grow(int device, std::size_t bytes) const;
  /// The largest number of bytes handed out at the same time since the last reset.
  std::size_t most_used(int device) const { return pools_[static_cast<std::size_t>(device)].most; }
  void reset_most_used(int device);
  void open_to_peers(int device) { pools_[static_cast<std::size_t>(device)].open = true; }
  bool is_open_to_peers(int device) const { return pools_[static_cast<std::size_t>(device)].open; }
  /// Performs the host's side of a free. If `stream` is 0, the free is not stream-ordered.
  void take_back(void* data, std::uintptr_t stream);
  /// These two functions perform the stream's side of an allocation and of a free.
  void become_valid(void* data, std::size_t bytes);
  void become_free(void* data);

  void* hand_out_pinned(std::size_t bytes);
  void take_back_pinned(void* data);

  Where where(const void* data) const;
  /// The GPU that the address belongs to; -1 for none.
  int device_of(const void* data) const;
  /// Ends the process unless the whole range lies in one valid block, in one piece of pinned
  /// memory, or outside both kinds of memory.
  void must_be_valid(const void* data, std::size_t bytes, const char* who) const;
  std::size_t used(int device) const;
  std::size_t total() const { return total_; }

  /// With $LOCKSTEP_EMULATOR_PROTECT=1 the arenas are accessible only while a stream runs: host
  /// code that dereferences a GPU address crashes.
  void allow_access(bool allowed);

 private:
  struct Block {
    std::size_t capacity = 0;   ///< bytes between the guards
    std::size_t bytes = 0;      ///< of the current or last allocation, on the streams' side
    bool handed_out = false;    ///< host's side
    bool valid = false;         ///< streams' side
    int frees_pending = 0;      ///< frees that no stream has reached yet
    std::uintptr_t stream = 0;  ///< stream of the last free
    int device = 0;
  };
  /// Byte counts cover blocks, without their guards.
  struct Pool {
    bool internal_dependencies = true, open = false;
    std::size_t used = 0;    ///< handed out now
    std::size_t most = 0;    ///< handed out at the same time, at most
    std::size_t mapped = 0;  ///< likewise, but never reset
  };
  using Blocks = std::map<std::uintptr_t, Block>;

  Blocks::iterator find_reusable(int device, std::size_t capacity, std::uintptr_t stream,
                                 bool may_wait);
  void trim(int device);
  const Block* containing(const void* data, std::uintptr_t& start) const;
  void check_guards(std::uintptr_t start, const Block& block) const;

  std::size_t total_;
  std::uintptr_t base_ = 0;
  std::vector<Pool> pools_;        ///< per GPU
  std::vector<std::size_t> next_;  ///< per GPU: bytes of addresses used so far
  std::vector<std::size_t>
      used_;  ///< per GPU: bytes of all blocks, including free ones, like a pool
  Blocks blocks_;
  std::map<std::uintptr_t, std::size_t> pinned_;
  bool protect_;
};

}  // namespace emulator
