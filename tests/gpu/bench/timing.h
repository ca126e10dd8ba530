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

/// A figure, printed as a line of four columns separated by tabs, which tests/gpu/run collects.
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string detail;
};
void print(const Figure& figure);

/// A GPU queue and a benchmark's memory, all released at the end. Memory is filled with random
/// numbers, because a GPU computes faster on zeros.
class Bench {
 public:
  /// `most_calls` limits the calls per sample.
  explicit Bench(Gpu& gpu, int most_calls = 1000);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Gpu& gpu() const { return gpu_; }
  Queue queue() const { return queue_; }
  const Kernels& kernels() const { return gpu_.kernels(); }

  /// Returns normally distributed values with standard deviation 1; f32 or bf16.
  View random(Shape shape, DType dtype);
  /// The same with a gap after each row that aligns the next one, as the model has its logits
  /// (Tensor::with_aligned_rows).
  View random_aligned(std::int64_t rows, std::int64_t columns, DType dtype);
  /// Returns integers in [0, bound).
  View indices(Shape shape, int bound);
  /// Releases all memory allocated so far.
  void release_all();
  void finish();
  /// Runs one measurement. If it throws, for example because the build left out a kernel, prints
  /// the reason, so that the other measurements still run.
  void attempt(const std::string& name, const std::function<void()>& measure);
  /// Returns how many measurements threw.
  int failed() const { return failed_; }

  /// Returns the seconds that one call of `work(i)` takes, as the median over `samples` samples.
  /// Each sample is timed between two marks. It makes enough consecutive calls on the queue to take
  /// a few milliseconds or, for ranks that must all make the same number of calls, exactly `calls`
  /// calls. `i` counts up from 0, so `work` can use different buffers in each call and thus avoid
  /// measuring a warm cache. `work` may also wait for the queue.
  double seconds(int samples, const std::function<void(int)>& work, int calls = 0);

 private:
  View filled(Shape shape, DType dtype, const void* pattern);
  double milliseconds_of(int first, int calls, const std::function<void(int)>& work);
  void wait(const Mark& mark);

  static constexpr std::size_t pattern_bytes = 1 << 24;

  Gpu& gpu_;
  int most_calls_;
  int failed_ = 0;
  Queue queue_;
  std::vector<void*> taken_;
  /// Patterns that are copied repeatedly to fill memory, because generating gigabytes would take
  /// longer than the measurement.
  void* normal_f32_;
  void* normal_bf16_;
  void* scratch_;
};

}  // namespace lockstep
