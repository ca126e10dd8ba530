#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

Stacks::Stacks(unsigned count) : total_(count * (bytes + guard)) {
  void* const memory = mmap(nullptr, total_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc{};
  memory_ = static_cast<std::byte*>(memory);
  for (unsigned i = 0; i < count; ++i) mprotect(bottom(i) - guard, guard, PROT_NONE);
}

Stacks::~Stacks() {
  munmap(memory_, total_);
}

namespace {

// AddressSanitizer must know which stack is in use.
#ifdef __SANITIZE_ADDRESS__
const void* caller_bottom = nullptr;
std::size_t caller_bytes = 0;
void leave(void** keep, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(keep, bottom, bytes);
}
void arrive_on_fiber(void* kept) {
  __sanitizer_finish_switch_fiber(kept, &caller_bottom, &caller_bytes);
}
void arrive_at_caller(void* kept) {
  __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
}
void forget(std::byte* bottom) {
  __asan_unpoison_memory_region(bottom, Stacks::bytes);
}
#else
constexpr const void* caller_bottom = nullptr;
constexpr std::size_t caller_bytes = 0;
void leave(void**, const void*, std::size_t) {}
void arrive_on_fiber(void*) {}
void arrive_at_caller(void*) {}
void forget(std::byte*) {}
#endif

void (*entry_of_new_fiber)() = nullptr;
void first_steps() {
  arrive_on_fiber(nullptr);
  entry_of_new_fiber();
}

}  // namespace

#ifdef __x86_64__

// Saves the registers that the System V ABI requires a function to preserve, and switches to
// another stack.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.type emulator_switch, @function
emulator_switch:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, . - emulator_switch
)");

void Fiber::start(std::byte* stack_bottom, void (*entry)()) {
  bottom_ = stack_bottom;
  forget(bottom_);
  entry_of_new_fiber = entry;
  // Builds the stack that a call of emulator_switch at the start of first_steps would leave: six
  // registers, a return address and, as after any call, a stack pointer 8 bytes off a multiple of
  // 16.
  auto* top = reinterpret_cast<std::uintptr_t*>(bottom_ + Stacks::bytes);
  *--top = 0;  // no return address: first_steps does not return
  *--top = reinterpret_cast<std::uintptr_t>(&first_steps);
  for (int i = 0; i < 6; ++i) *--top = 0;
  here_ = top;
}

void Fiber::resume() {
  void* kept = nullptr;
  leave(&kept, bottom_, Stacks::bytes);
  emulator_switch(&caller_, here_);
  arrive_at_caller(kept);
}

void Fiber::pause() {
  leave(&asan_fiber_, caller_bottom, caller_bytes);
  emulator_switch(&here_, caller_);
  arrive_on_fiber(asan_fiber_);
}

void Fiber::done() {
  leave(nullptr, caller_bottom, caller_bytes);
  emulator_switch(&here_, caller_);
  std::abort();
}

#else

void Fiber::start(std::byte* stack_bottom, void (*entry)()) {
  bottom_ = stack_bottom;
  forget(bottom_);
  entry_of_new_fiber = entry;
  getcontext(&here_);
  here_.uc_stack.ss_sp = bottom_;
  here_.uc_stack.ss_size = Stacks::bytes;
  here_.uc_link = nullptr;
  makecontext(&here_, &first_steps, 0);
}

void Fiber::resume() {
  void* kept = nullptr;
  leave(&kept, bottom_, Stacks::bytes);
  swapcontext(&caller_, &here_);
  arrive_at_caller(kept);
}

void Fiber::pause() {
  leave(&asan_fiber_, caller_bottom, caller_bytes);
  swapcontext(&here_, &caller_);
  arrive_on_fiber(asan_fiber_);
}

void Fiber::done() {
  leave(nullptr, caller_bottom, caller_bytes);
  setcontext(&caller_);
  std::abort();
}

#endif

}  // namespace emulator
