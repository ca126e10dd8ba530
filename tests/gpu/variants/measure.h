#pragma once

/// Arrays on a GPU, and times of several ways to compute the same. Uses the CUDA runtime alone, so
/// that the programs of this folder also run on the emulator, where times mean nothing.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/view.h"

namespace lockstep::variants {

/// Memory on the GPU, released at the end.
class Arrays {
 public:
  /// Returns normally distributed values; f32 or bf16. The same million values repeat.
  View random(Shape shape, DType dtype, float deviation = 1.0F);
  View zeros(Shape shape, DType dtype);
  /// Returns a contiguous copy of the values, rounded to `dtype`.
  View of(const std::vector<double>& values, Shape shape, DType dtype);

 private:
  View allocate(Shape shape, DType dtype);
  std::vector<std::unique_ptr<cuda::Scratch<std::byte>>> memory_;
};

/// Waits for the GPU, and returns the values of a contiguous view.
std::vector<double> values_of(const View& view);

/// Prints a line "variant NAME: VALUE UNIT".
void print(const std::string& name, double value, const std::string& unit);

/// One way of a comparison. `work` is the number of FLOPs or bytes that a call counts as.
struct Way {
  std::string name;
  std::function<void(Queue)> run;
  double work = 0.0;
  std::string unit = "TFLOP/s";
};

/// Measures the ways in turn, `rounds` times, so that all see the same clocks and temperatures, and
/// prints the median time of a call, its rate, how much faster it is than the first way, and, if
/// NVML answers, the energy of a call and the clock of the multiprocessors. A way that throws is
/// reported and left out. Returns whether none did.
bool compare(const std::string& title, const std::vector<Way>& ways, int rounds,
             double sample_milliseconds);

}  // namespace lockstep::variants
