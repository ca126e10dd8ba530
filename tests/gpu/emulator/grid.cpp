#include <algorithm>
#include <map>
#include <numeric>

#include "running.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

constexpr std::size_t unasked_shared = 48 << 10U;

/// The kernels that may use more dynamic shared memory than the default, with their limits.
std::mutex allowed_mutex;
std::map<const void*, std::size_t>& allowed() {
  static std::map<const void*, std::size_t> bytes;
  return bytes;
}

}  // namespace

Running& running() {
  // Never destroyed: a kernel may still run at the end of the process.
  static Running& running = *new Running;
  return running;
}

void seed(std::uint64_t value) {
  const std::lock_guard lock(running().mutex);
  running().random.state = value * 0x9e3779b97f4a7c15U + 1;
  running().random.next();
}

void run_grid(const Grid& grid, const std::function<void()>& thread) {
  Running& all = running();
  const std::lock_guard lock(all.mutex);
  blockDim = {grid.threads.x, grid.threads.y, grid.threads.z};
  gridDim = {grid.blocks.x, grid.blocks.y, grid.blocks.z};
  std::vector<unsigned> order(grid.blocks.count());
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[all.random.below(i)]);
  for (const unsigned i : order) {
    blockIdx = {i % grid.blocks.x, i / grid.blocks.x % grid.blocks.y,
                i / grid.blocks.x / grid.blocks.y};
    all.block.run(grid, thread);
  }
}

void warp_collective(unsigned mask, void* mine, FinishWarp finish, std::source_location at) {
  running().block.warp_collective(mask, mine, finish, at);
}

void block_collective(void* mine, FinishBlock finish, std::source_location at) {
  running().block.block_collective(mine, finish, at);
}

std::uint64_t barriers_passed() {
  return running().barriers;
}
unsigned thread_rank() {
  return running().block.current;
}
unsigned lane() {
  return running().block.current % 32;
}
void* dynamic_shared_memory() {
  return running().block.dynamic_shared();
}

cudaError_t allow_shared(const void* kernel, int bytes) {
  if (bytes < 0 || static_cast<std::size_t>(bytes) > most_shared) return cudaErrorInvalidValue;
  const std::lock_guard lock(allowed_mutex);
  allowed()[kernel] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

cudaError_t launch(const void* kernel, const cudaLaunchConfig_t& config,
                   std::function<void()> thread) {
  const dim3 blocks = config.gridDim, threads = config.blockDim;
  const bool blocks_fit = blocks.x >= 1 && blocks.x <= 0x7fffffffU && blocks.y >= 1 &&
                          blocks.y <= 65535 && blocks.z >= 1 && blocks.z <= 65535;
  const Grid grid{
      {blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}, config.dynamicSmemBytes};
  const bool threads_fit = threads.x >= 1 && threads.y >= 1 && threads.z >= 1 && threads.z <= 64 &&
                           grid.threads.count() <= most_threads;
  std::size_t most = unasked_shared;
  {
    const std::lock_guard lock(allowed_mutex);
    if (const auto found = allowed().find(kernel); found != allowed().end())
      most = std::max(most, found->second);
  }
  if (!blocks_fit || !threads_fit) return cudaErrorInvalidConfiguration;
  if (grid.shared_bytes > most) return cudaErrorInvalidValue;
  return enqueue(config.stream, [grid, thread = std::move(thread)] { run_grid(grid, thread); });
}

}  // namespace emulator
