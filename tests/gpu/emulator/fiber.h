#pragma once

/// Threads of control that take turns on one OS thread. Switching costs about as much as a function
/// call on x86-64, and takes two system calls elsewhere (ucontext).

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulator {

/// Stacks of 256 KiB, each with a guard page below it. Only touched pages use memory.
class Stacks {
 public:
  explicit Stacks(unsigned count);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  static constexpr std::size_t bytes = 256 << 10U;
  /// The lowest usable address of stack `i`.
  std::byte* bottom(unsigned i) const { return memory_ + i * (bytes + guard) + guard; }

 private:
  static constexpr std::size_t guard = 4096;
  std::size_t total_;
  std::byte* memory_;
};

/// One thread of control. The caller of resume() and the fiber take turns.
class Fiber {
 public:
  /// Makes the next resume() call `entry` on this stack, whose previous contents are discarded
  /// without unwinding. `entry` must not return; instead, it must call done().
  void start(std::byte* stack_bottom, void (*entry)());
  /// Runs the fiber until it calls pause() or done().
  void resume();
  /// Called on the fiber: returns to the caller of resume().
  void pause();
  [[noreturn]] void done();

 private:
  std::byte* bottom_ = nullptr;
  void* asan_fiber_ = nullptr;
#ifdef __x86_64__
  void* here_ = nullptr;    // the fiber's stack pointer while it is paused
  void* caller_ = nullptr;  // its caller's stack pointer while the fiber runs
#else
  ucontext_t here_{}, caller_{};
#endif
};

}  // namespace emulator
