#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/transport/gpu_communicator.h"
#include "core/device/gpu.h"

namespace lockstep::test {

/// The library that $LOCKSTEP_GPU_LIBRARY names: CUDA's, or one built from the same sources on top
/// of the emulator.
GpuLibrary& library();
/// Whether the library is the emulator, which reveals behaviour that CUDA permits but rarely shows.
bool is_emulated();
/// Whether the emulator postpones queued work until some thread waits for it.
bool is_lazy();
inline int gpus() {
  return static_cast<int>(library().gpus().size());
}

/// Waits until the queue is empty; throws RunError after `seconds`.
void finish(Gpu& gpu, Queue queue, double seconds = 60.0);
bool passes_within(Gpu& gpu, const Mark& mark, double seconds);

/// Runs `mistake` in a child process. Returns the text that the emulator prints before it ends that
/// process, or "" if it does not end it.
std::string last_words(const std::function<void()>& mistake);

/// Runs one thread per rank and joins them all. Rethrows the first exception.
void on_threads(int ranks, const std::function<void(int rank)>& work);

/// Queues and memory for one test, which are released at its end.
class Scope {
 public:
  explicit Scope(Gpu& gpu) : gpu_(gpu) {}
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  Queue queue(bool urgent = false);
  template <class T>
  T* device(std::size_t count, Queue queue) {
    blocks_.emplace_back(gpu_.allocate(count * sizeof(T), queue), queue);
    return static_cast<T*>(blocks_.back().first);
  }
  template <class T>
  T* pinned(std::size_t count) {
    pinned_.push_back(gpu_.allocate_pinned(count * sizeof(T)));
    return static_cast<T*>(pinned_.back());
  }

 private:
  Gpu& gpu_;
  std::vector<Queue> queues_;
  std::vector<std::pair<void*, Queue>> blocks_;
  std::vector<void*> pinned_;
};

}  // namespace lockstep::test
