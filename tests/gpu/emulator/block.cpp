#include "emulator/block.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "emulator/device.h"
#include "fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// The bounds of the section that holds __shared__ variables. The linker defines these symbols; they
// are null if there are no such variables.
extern "C" {
extern char __start_emulated_shared[] __attribute__((weak));
extern char __stop_emulated_shared[] __attribute__((weak));
}

namespace emulator {
namespace {

constexpr unsigned most_threads = 1024;
constexpr std::size_t most_shared = 227 << 10U, unasked_shared = 48 << 10U;

std::string text(std::source_location at) {
  return std::string(at.function_name()) + " (" + at.file_name() + ":" + std::to_string(at.line()) +
         ")";
}

bool same_line(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

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
  void run(const Grid& grid, const std::function<void()>& body);

  void block_collective(void* mine, FinishBlock finish, std::source_location at);
  void warp_collective(unsigned mask, void* mine, FinishWarp finish, std::source_location at);

  Generator random;
  std::uint64_t barriers = 1;
  unsigned current = 0;  // the running thread
  std::byte* dynamic_shared = nullptr;

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

  unsigned at_barrier_ = 0;
  FinishBlock barrier_finish_ = nullptr;
  std::source_location barrier_at_;
  std::vector<void*> barrier_threads_;
  std::vector<unsigned> barrier_waiting_;
};

Block& block() {
  static Block block;
  return block;
}

void Block::entry() {
  Block& self = block();
  try {
    (*self.body_)();
  } catch (...) {
    self.error_ = std::current_exception();
  }
  self.returned_ = true;
  self.threads_[self.current].fiber.done();
}

void Block::resume(unsigned thread) {
  Thread& t = threads_[thread];
  if (t.stack == most_threads) {
    t.stack = free_stacks_.back();
    free_stacks_.pop_back();
    t.fiber.start(stacks_.bottom(t.stack), entry);
  }
  current = thread;
  threadIdx = t.index;
  returned_ = false;
  t.fiber.resume();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!returned_) return;
  free_stacks_.push_back(t.stack);
  --live_;
  if (at_barrier_ > 0 && at_barrier_ == live_) finish_barrier();
}

void Block::run(const Grid& grid, const std::function<void()>& body) {
  body_ = &body;
  count_ = live_ = grid.threads.count();
  ++barriers;
  at_barrier_ = 0;
  barrier_threads_.assign(count_, nullptr);
  barrier_waiting_.clear();
  for (Warp& warp : warps_) warp.open.clear();
  free_stacks_.resize(most_threads);
  std::iota(free_stacks_.rbegin(), free_stacks_.rend(), 0U);
  ready_.resize(count_);
  std::iota(ready_.begin(), ready_.end(), 0U);
  for (unsigned i = 0; i < count_; ++i) {
    const Extent& n = grid.threads;
    threads_[i].index = {i % n.x, i / n.x % n.y, i / n.x / n.y};
    threads_[i].stack = most_threads;
    threads_[i].waiting = false;
  }
  while (live_ > 0) {
    if (ready_.empty()) stuck();
    std::swap(ready_[random.below(ready_.size())], ready_.back());
    const unsigned next = ready_.back();
    ready_.pop_back();
    resume(next);
  }
}

void Block::wait(std::source_location at) {
  Thread& me = threads_[current];
  me.waiting = true;
  me.waits_at = at;
  me.fiber.pause();
  me.waiting = false;
}

void Block::finish_barrier() {
  if (barrier_finish_ != nullptr)
    barrier_finish_(barrier_threads_);
  else
    ++barriers;
  for (const unsigned thread : barrier_waiting_) ready_.push_back(thread);
  barrier_waiting_.clear();
  std::fill(barrier_threads_.begin(), barrier_threads_.end(), nullptr);
  at_barrier_ = 0;
}

void Block::block_collective(void* mine, FinishBlock finish, std::source_location at) {
  if (at_barrier_ == 0) {
    barrier_at_ = at;
    barrier_finish_ = finish;
  } else if (barrier_finish_ != finish || !same_line(barrier_at_, at)) {
    fail(("a thread came here while others of its block wait in " + text(barrier_at_)).c_str(), at);
  }
  ++at_barrier_;
  barrier_threads_[current] = mine;
  // This thread joins the waiting threads even if it is the last to arrive, so the first thread to
  // continue after a barrier is random too.
  barrier_waiting_.push_back(current);
  if (at_barrier_ == live_) finish_barrier();
  wait(at);
}

void Block::warp_collective(unsigned mask, void* mine, FinishWarp finish, std::source_location at) {
  const unsigned bit = 1U << lane();
  if ((mask & bit) == 0) fail("a lane calls a warp operation whose mask leaves it out", at);
  auto& open = warps_[current / 32].open;
  auto operation =
      std::find_if(open.begin(), open.end(), [=](const auto& o) { return (o.mask & mask) != 0; });
  if (operation == open.end()) {
    open.push_back({mask, 0, finish, at, {}});
    operation = open.end() - 1;
  } else if (operation->mask != mask || operation->finish != finish) {
    fail(("a lane came here while others of its mask wait in " + text(operation->at)).c_str(), at);
  }
  operation->arrived |= bit;
  operation->lanes[lane()] = mine;
  if (operation->arrived == mask) {
    const WarpOperation complete = *operation;
    open.erase(operation);
    if (finish != nullptr) finish(mask, complete.lanes.data());
    for (unsigned i = 0; i < 32; ++i)
      if ((mask >> i & 1U) != 0) ready_.push_back(current / 32 * 32 + i);
  }
  wait(at);
}

void Block::stuck() const {
  std::map<std::string, unsigned> places;
  std::source_location at;
  for (unsigned i = 0; i < count_; ++i)
    if (threads_[i].waiting) at = threads_[i].waits_at, ++places[text(at)];
  std::string what = "no thread of block (" + std::to_string(blockIdx.x) + ", " +
                     std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) +
                     ") can go on: of " + std::to_string(count_) + " threads " +
                     std::to_string(count_ - live_) + " have returned";
  for (const auto& [place, threads] : places)
    what += ", " + std::to_string(threads) + " wait in " + place;
  throw KernelError(what);
}

/// The kernels that may use more dynamic shared memory than the default, with their limits.
std::mutex allowed_mutex;
std::map<const void*, std::size_t>& allowed() {
  static std::map<const void*, std::size_t> bytes;
  return bytes;
}

std::mutex grid_mutex;

}  // namespace

void fail(const char* what, std::source_location at) {
  throw KernelError(text(at) + ": " + what + "; thread (" + std::to_string(threadIdx.x) + ", " +
                    std::to_string(threadIdx.y) + ", " + std::to_string(threadIdx.z) +
                    ") of block (" + std::to_string(blockIdx.x) + ", " +
                    std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + ")");
}

void seed(std::uint64_t value) {
  const std::lock_guard lock(grid_mutex);
  block().random.state = value * 0x9e3779b97f4a7c15U + 1;
  block().random.next();
}

void run_grid(const Grid& grid, const std::function<void()>& thread) {
  const std::lock_guard lock(grid_mutex);
  static std::unique_ptr<std::byte, decltype(&std::free)> shared{
      static_cast<std::byte*>(std::aligned_alloc(1024, most_shared / 1024 * 1024 + 1024)),
      &std::free};
  Block& one = block();
  one.dynamic_shared = shared.get();
  blockDim = {grid.threads.x, grid.threads.y, grid.threads.z};
  gridDim = {grid.blocks.x, grid.blocks.y, grid.blocks.z};
  std::vector<unsigned> order(grid.blocks.count());
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[one.random.below(i)]);
  for (const unsigned i : order) {
    blockIdx = {i % grid.blocks.x, i / grid.blocks.x % grid.blocks.y,
                i / grid.blocks.x / grid.blocks.y};
    // Fills shared memory with 0xFF bytes: NaN as f32, f64, bf16 and f16, and out of range as an
    // index.
    std::memset(shared.get(), 0xff, grid.shared_bytes);
    if (__start_emulated_shared != nullptr)
      std::memset(__start_emulated_shared, 0xff,
                  static_cast<std::size_t>(__stop_emulated_shared - __start_emulated_shared));
    one.run(grid, thread);
  }
}

void warp_collective(unsigned mask, void* mine, FinishWarp finish, std::source_location at) {
  block().warp_collective(mask, mine, finish, at);
}

void block_collective(void* mine, FinishBlock finish, std::source_location at) {
  block().block_collective(mine, finish, at);
}

std::uint64_t barriers_passed() {
  return block().barriers;
}
unsigned thread_rank() {
  return block().current;
}
unsigned lane() {
  return block().current % 32;
}
void* dynamic_shared_memory() {
  return block().dynamic_shared;
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
