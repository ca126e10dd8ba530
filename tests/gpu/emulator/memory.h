#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emulator {

/// Ends the process with one line: a mistake that a GPU would answer with wrong numbers, or not at
/// all.
[[noreturn]] void give_up(const std::string& what);

enum class Where { pageable, pinned, gpu };

/// The memories: an arena of addresses per GPU, and pinned memory of the host. Each block lives
/// twice: as the host sees it (handed out or not, at once), and as the streams have come to it
/// (valid or not, when their turn comes). All calls are made under the machine's lock, or by what
/// runs on a stream.
///
/// Blocks hold 0xFF bytes (NaN as f32, f16 and bf16, -1 as i32) when they become valid and after
/// they are freed, and have guard bytes on both sides, looked at when they are freed.
class Memory {
 public:
  Memory(int devices, std::size_t bytes_per_device);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Hands out a block of `bytes`, or null where the GPU has no more: one that was freed on the
  /// same stream, whether or not the stream has come to that, or one whose free is executed. This
  /// is what CUDA's pools do.
  void* hand_out(int device, std::size_t bytes, std::uintptr_t stream);
  /// The host's side of a free. `stream` 0: not in a stream's order.
  void take_back(void* data, std::uintptr_t stream);
  /// The streams' side.
  void become_valid(void* data, std::size_t bytes);
  void become_free(void* data);

  void* hand_out_pinned(std::size_t bytes);
  void take_back_pinned(void* data);

  Where where(const void* data) const;
  /// Of the GPU that the address belongs to; -1: none.
  int device_of(const void* data) const;
  /// The whole range lies in one valid block, or in one piece of pinned memory, or is neither.
  void must_be_valid(const void* data, std::size_t bytes, const char* who) const;
  std::size_t used(int device) const;
  std::size_t total() const { return total_; }

  /// With $LOCKSTEP_EMULATOR_PROTECT=1 the arenas can be touched only while a stream runs: a host
  /// that follows a GPU's address stops there.
  void allow_access(bool allowed);

 private:
  struct Block {
    std::size_t capacity = 0;   ///< bytes between the guards
    std::size_t bytes = 0;      ///< of the present or last allocation, as the streams see it
    bool handed_out = false;    ///< as the host sees it
    bool valid = false;         ///< as the streams see it
    int frees_pending = 0;      ///< that no stream has come to yet
    std::uintptr_t stream = 0;  ///< that it was last freed on
    int device = 0;
  };
  using Blocks = std::map<std::uintptr_t, Block>;

  Blocks::iterator find_reusable(int device, std::size_t capacity, std::uintptr_t stream);
  void trim(int device);
  const Block* containing(const void* data, std::uintptr_t& start) const;
  void check_guards(std::uintptr_t start, const Block& block) const;

  std::size_t total_;
  std::uintptr_t base_ = 0;
  std::vector<std::size_t> next_;  ///< per GPU: how much of its addresses has ever been used
  std::vector<std::size_t>
      used_;  ///< per GPU: bytes of blocks, free ones too, as a pool keeps them
  Blocks blocks_;
  std::map<std::uintptr_t, std::size_t> pinned_;
  bool protect_;
};

}  // namespace emulator
