#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "running.h"

// The bounds of the section that holds __shared__ variables. The linker defines these symbols; they
// are null if there are no such variables.
extern "C" {
extern char __start_emulated_shared[] __attribute__((weak));
extern char __stop_emulated_shared[] __attribute__((weak));
}

namespace emulator {
namespace {

std::string text(std::source_location at) {
  return std::string(at.function_name()) + " (" + at.file_name() + ":" + std::to_string(at.line()) +
         ")";
}

bool same_line(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

std::size_t static_bytes() {
  return __start_emulated_shared == nullptr
             ? 0
             : static_cast<std::size_t>(__stop_emulated_shared - __start_emulated_shared);
}

}  // namespace

void Block::entry() {
  Block& self = running().block;
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
  ++running().barriers;
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
  // Fills shared memory with 0xFF bytes: NaN as f32, f64, bf16 and f16, and out of range as an
  // index.
  std::memset(dynamic_shared(), 0xff, grid.shared_bytes);
  if (static_bytes() > 0) std::memset(__start_emulated_shared, 0xff, static_bytes());
  while (live_ > 0) {
    if (ready_.empty()) stuck();
    std::swap(ready_[running().random.below(ready_.size())], ready_.back());
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
    ++running().barriers;
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

void fail(const char* what, std::source_location at) {
  throw KernelError(text(at) + ": " + what + "; thread (" + std::to_string(threadIdx.x) + ", " +
                    std::to_string(threadIdx.y) + ", " + std::to_string(threadIdx.z) +
                    ") of block (" + std::to_string(blockIdx.x) + ", " +
                    std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + ")");
}

}  // namespace emulator
