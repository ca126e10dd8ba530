#pragma once

/// CUDA's programming model on the CPU: grids of blocks of threads that synchronise at barriers and
/// in warps. It tests a kernel's indices, barriers and reductions. It does not model speed, memory
/// consistency between blocks, or nvcc's translation of the source.
///
/// The threads of a block are fibers on one OS thread. Each thread runs until it has to wait for
/// others. The next thread to run is drawn at random, and so is the order of blocks. A missing
/// barrier therefore gives a wrong result for some seed, and the same seed repeats the same order.
/// A block runs to its end before another one starts, so blocks can't wait for one another.
/// Shared memory is filled with NaN before each block (with the exceptions in emulator/device.h).
/// Behaviour that CUDA leaves undefined is an error here (KernelError): a barrier that not all
/// threads reach, a warp operation with a missing lane, a block that exceeds a GPU's limits.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <stdexcept>

namespace emulator {

/// Thrown for kernel behaviour that CUDA leaves undefined. The message names the place in the
/// source.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  constexpr unsigned count() const { return x * y * z; }
};

/// The grid over which one kernel runs.
struct Grid {
  Extent blocks, threads;
  std::size_t shared_bytes = 0;  ///< dynamic shared memory
};

/// Seeds the random orders of all later kernels of the process.
void seed(std::uint64_t value);

/// Runs `thread` once for each thread of the grid, with threadIdx and the other built-in variables
/// set. One grid runs at a time in the whole process; other callers wait.
void run_grid(const Grid& grid, const std::function<void()>& thread);

// -- for replacements of collective operations, called from within a kernel -----------------------

/// Computes the result of a warp operation for each lane: lanes[i] is the `mine` of lane i, or null
/// if lane i is not in the mask.
using FinishWarp = void (*)(unsigned mask, void* const* lanes);
/// Computes the result of a block operation for each thread. `threads` has one entry per thread, in
/// order of threadIdx; the entry is null if the thread has returned.
using FinishBlock = void (*)(std::span<void* const> threads);

/// Returns when all lanes of `mask` have called this function with the same mask and the same
/// `finish`, and the last lane has run `finish`. `mine` is typically a struct on the caller's stack
/// with a lane's arguments and room for its result. If `finish` is null, the call only waits for
/// the lanes.
void warp_collective(unsigned mask, void* mine, FinishWarp finish, std::source_location at);

/// Returns once all of the block's threads, except those that have already returned, have called
/// this function from the same line.
void block_collective(void* mine, FinishBlock finish, std::source_location at);

/// Returns a count, starting at 1, of the barriers that all threads of a block have passed plus the
/// blocks that have run. Two uses of the same shared memory at the same count are a race.
std::uint64_t barriers_passed();

/// The calling thread's index in its block, and in its warp.
unsigned thread_rank();
unsigned lane();

/// The block's dynamic shared memory, aligned to 1024 bytes.
void* dynamic_shared_memory();

[[noreturn]] void fail(const char* what, std::source_location at);

}  // namespace emulator
