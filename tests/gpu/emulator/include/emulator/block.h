#pragma once

/// CUDA's programming model on the CPU: grids of blocks of threads that meet at barriers and in
/// warps. It shows whether a kernel's indices, barriers and reductions are right; it knows nothing
/// of speed, of memory's consistency between blocks, or of what nvcc makes of the source.
///
/// The threads of a block are fibers on one thread of the operating system. Each runs until it
/// waits for others; who runs next is drawn at random, and so is the order of blocks. A missing
/// barrier therefore shows as a wrong result for some seed, and the same seed gives the same order.
/// Shared memory is filled with NaN before each block (but see emulator/device.h). What CUDA leaves
/// undefined is an error here (KernelError): a barrier that not all threads reach, a warp operation
/// with a lane missing, a block that asks for more than a GPU has.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <stdexcept>

namespace emulator {

/// What a kernel did that CUDA doesn't define. Names the place in the source.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  constexpr unsigned count() const { return x * y * z; }
};

/// What one kernel is run over.
struct Grid {
  Extent blocks, threads;
  std::size_t shared_bytes = 0;  ///< dynamic shared memory
};

/// Later kernels of the process draw their orders from this.
void seed(std::uint64_t value);

/// Runs `thread` once for each thread of the grid, with threadIdx and the others set. One grid at a
/// time in the whole process; others wait.
void run_grid(const Grid& grid, const std::function<void()>& thread);

// -- for those who write stand-ins of collective operations, called from within a kernel ----------

/// Computes what a warp operation gives each lane: lanes[i] is what lane i passed as `mine`, null
/// where the mask has no bit.
using FinishWarp = void (*)(unsigned mask, void* const* lanes);
/// The same for a block: one for each thread, in order of threadIdx; null for one that has
/// returned.
using FinishBlock = void (*)(std::span<void* const> threads);

/// Returns when all lanes of `mask` have called it, with the same mask and the same `finish`, which
/// the last of them has run. `mine` is typically a struct on the caller's stack with a lane's
/// arguments and room for its result. `finish` may be null: then it only waits.
void warp_collective(unsigned mask, void* mine, FinishWarp finish, std::source_location at);

/// Returns when all threads of the block that have not returned have called it, from the same line.
void block_collective(void* mine, FinishBlock finish, std::source_location at);

/// Counts how often all threads have come through __syncthreads, and blocks: what keeps two uses of
/// the same shared memory apart. From 1.
std::uint64_t barriers_passed();

/// The calling thread's place in its block, and in its warp.
unsigned thread_rank();
unsigned lane();

/// The block's dynamic shared memory, 1024-byte aligned.
void* dynamic_shared_memory();

[[noreturn]] void fail(const char* what, std::source_location at);

}  // namespace emulator
