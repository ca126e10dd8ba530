#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/device/gpu.h"

namespace lockstep {

/// A figure, as a line of four columns with tabs between them: what tests/gpu/run collects.
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string detail;
};
void print(const Figure& figure);

/// A queue of a GPU and the memory that a benchmark takes, all of it given back at the end. Memory
/// is filled with random numbers: on zeros a GPU computes faster than it does on data.
class Bench {
 public:
  /// A sample has at most so many calls.
  explicit Bench(Gpu& gpu, int most_calls = 1000);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Gpu& gpu() const { return gpu_; }
  Queue queue() const { return queue_; }
  const Kernels& kernels() const { return gpu_.kernels(); }

  /// Normal, of standard deviation 1; f32 or bf16.
  View random(Shape shape, DType dtype);
  /// Integers in [0, bound).
  View indices(Shape shape, int bound);
  /// Gives back what was taken since.
  void release_all();
  void finish();

  /// Seconds of one call of `work(i)`: the median over `samples` samples, each of as many calls,
  /// one after the other on the queue, as take a few milliseconds, between two marks. `i` counts up
  /// from 0, so that each call may take other buffers than the one before: what the cache still
  /// holds of those is not what is measured. `work` may wait for the queue itself. With `calls` a
  /// sample has that many, as ranks want it that work together.
  double seconds(int samples, const std::function<void(int)>& work, int calls = 0);

 private:
  View filled(Shape shape, DType dtype, const void* pattern);
  double milliseconds_of(int first, int calls, const std::function<void(int)>& work);
  void wait(const Mark& mark);

  static constexpr std::size_t pattern_bytes = 1 << 24;

  Gpu& gpu_;
  int most_calls_;
  Queue queue_;
  std::vector<void*> taken_;
  /// What memory is filled with, again and again: drawing gigabytes takes longer than measuring.
  void* normal_f32_;
  void* normal_bf16_;
  void* scratch_;
};

}  // namespace lockstep
