#pragma once

/// The state of a running kernel: its current block and that block's threads.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <source_location>
#include <vector>

#include "emulator/block.h"
#include "emulator/device.h"
#include "fiber.h"

namespace emulator {

inline constexpr unsigned most_threads = 1024;
inline constexpr std::size_t most_shared = 227 << 10U;  ///< bytes per block

/// xorshift64* (Vigna 2016).
struct Generator {
  std::uint64_t state = 0x9e3779b97f4a7c15U;
  std::uint64_t next() {
    state ^= state >> 12U;
    state ^= state << 25U;
    state ^= state >> 27U;
    return state * 0x2545f4914f6cdd1dU;
  }
  unsigned below(std::size_t limit) { return static_cast<unsigned>((next() >> 33U) % limit); }
};

/// A warp operation that some but not all of its lanes have reached.
struct WarpOperation {
  unsigned mask = 0, arrived = 0;
  FinishWarp finish = nullptr;
  std::source_location at;
  std::array<void*, 32> lanes{};
};

struct Warp {
  std::vector<WarpOperation> open;  // the masks are disjoint
};

struct Thread {
  Fiber fiber;
  uint3 index{};
  unsigned stack = 0;
  bool waiting = false;
  std::source_location waits_at;
};

/// Runs one block at a time. Records which of the block's threads can run, and the operations that
/// the other threads are waiting for.
class Block {
 public:
  /// Runs a block, at blockIdx, until all its threads have returned. Throws KernelError if none of
  /// the others can continue.
  void run(const Grid& grid, const std::function<void()>& body);

  void block_collective(void* mine, FinishBlock finish, std::source_location at);
  void warp_collective(unsigned mask, void* mine, FinishWarp finish, std::source_location at);

  unsigned current = 0;  // the running thread
  std::byte* dynamic_shared() const { return dynamic_shared_.get(); }

 private:
  static void entry();
  void resume(unsigned thread);
  void wait(std::source_location at);
  void finish_barrier();
  [[noreturn]] void stuck() const;

  Stacks stacks_{most_threads};
  std::array<Thread, most_threads> threads_;
  std::array<Warp, most_threads / 32> warps_;
  std::vector<unsigned> ready_, free_stacks_;
  unsigned count_ = 0, live_ = 0;
  bool returned_ = false;
  std::exception_ptr error_;
  const std::function<void()>* body_ = nullptr;

  std::unique_ptr<std::byte, decltype(&std::free)> dynamic_shared_{
      static_cast<std::byte*>(std::aligned_alloc(1024, most_shared / 1024 * 1024 + 1024)),
      &std::free};

  unsigned at_barrier_ = 0;
  FinishBlock barrier_finish_ = nullptr;
  std::source_location barrier_at_;
  std::vector<void*> barrier_threads_;
  std::vector<unsigned> barrier_waiting_;
};

/// All running kernels: one grid, and one of its blocks, at a time.
struct Running {
  std::mutex mutex;
  Generator random;
  std::uint64_t barriers = 1;
  Block block;
};

/// Returns the Running of this process.
Running& running();

}  // namespace emulator
