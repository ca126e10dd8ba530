#include "exercises/frame/own_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exercises/frame/staging.h"

namespace lockstep::exercises {

namespace {

constinit thread_local OwnMemory* counting = nullptr;
/// Whether this thread is in OwnMemory's own code, whose allocations are reported, too.
constinit thread_local bool is_busy = false;

}  // namespace

OwnMemory::OwnMemory(World& world) : world_(world) {
  counting = this;
}

OwnMemory::~OwnMemory() {
  counting = nullptr;
  std::int64_t& most = Frame::state(world_).own_bytes;
  most = std::max(most, peak_);
}

void OwnMemory::allocated(const volatile void* memory, std::size_t bytes) {
  if (uncounted_ > 0) return;
  sizes_[memory] = bytes;
  held_ += static_cast<std::int64_t>(bytes);
  peak_ = std::max(peak_, held_);
}

void OwnMemory::freed(const volatile void* memory) {
  const auto at = sizes_.find(memory);
  if (at == sizes_.end()) return;
  held_ -= static_cast<std::int64_t>(at->second);
  sizes_.erase(at);
}

Uncounted::Uncounted() {
  if (counting != nullptr) ++counting->uncounted_;
}
Uncounted::~Uncounted() {
  if (counting != nullptr) --counting->uncounted_;
}

void expect_in_buffers(const std::string& what, const Outcome& outcome, std::size_t numbers,
                       const std::string& most) {
  // A send and a receive with each rank, in a vector that has grown to at most twice as many and is
  // being moved from half the size.
  const std::size_t ranks = outcome.own_bytes.size();
  const auto besides = static_cast<std::int64_t>(1024 + 3 * 2 * ranks * sizeof(Work));
  const auto allowed = 4 * static_cast<std::int64_t>(numbers);
  for (std::size_t r = 0; r < ranks; ++r)
    if (const std::int64_t own = outcome.own_bytes[r]; own > allowed + besides) {
      std::string why =
          "The result is right, but it takes memory that is not counted, such as a std::vector. "
          "What a technique saves is memory: what is large must be in Buffers from "
          "world.allocate(), so that it is known how much there is at a time.";
      if (own <= 3 * allowed + besides)
        why +=
            " (Is it only one vector? While a vector grows, it holds its old and its new memory: "
            "give it its size at once, or reserve() it. And a double takes as much as two "
            "numbers.)";
      throw Wrong{fmt::format("{}: rank {} holds {} B at a time outside of Buffers, and at most {} "
                              "allowed there: {} B",
                              what, r, own, most, allowed),
                  why};
    }
}

}  // namespace lockstep::exercises

// The sanitizers call these functions after each allocation and before each free.
extern "C" void __sanitizer_malloc_hook(const volatile void* memory, std::size_t bytes);
extern "C" void __sanitizer_malloc_hook(const volatile void* memory, std::size_t bytes) {
  using namespace lockstep::exercises;
  if (counting == nullptr || std::exchange(is_busy, true)) return;
  counting->allocated(memory, bytes);
  is_busy = false;
}
extern "C" void __sanitizer_free_hook(const volatile void* memory);
extern "C" void __sanitizer_free_hook(const volatile void* memory) {
  using namespace lockstep::exercises;
  if (counting == nullptr || std::exchange(is_busy, true)) return;
  counting->freed(memory);
  is_busy = false;
}
