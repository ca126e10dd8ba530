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
#include "core/comm/gpu_communicator.h"
#include "core/device/gpu.h"

namespace lockstep::test {

/// What $LOCKSTEP_GPU_LIBRARY names: that of CUDA, or the same sources over the emulator.
GpuLibrary& library();
/// Then there is more to be seen: what CUDA may do and seldom does.
bool is_emulated();
/// And then whether what is put on a queue waits there until somebody asks for it.
bool is_lazy();
inline int gpus() {
  return static_cast<int>(library().gpus().size());
}

/// Until all that is on the queue is done; throws RunError after `seconds`.
void finish(Gpu& gpu, Queue queue, double seconds = 60.0);
bool passes_within(Gpu& gpu, const Mark& mark, double seconds);

/// What `mistake` makes the emulator say when it ends the process; empty if it doesn't.
std::string last_words(const std::function<void()>& mistake);

/// One thread for each rank, which must all return. The first exception goes to the caller.
void on_threads(int ranks, const std::function<void(int rank)>& work);

/// A queue that is dropped, and memory that is given back, at the end of a test.
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
