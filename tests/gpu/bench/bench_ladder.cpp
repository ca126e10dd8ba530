// Measures the steps of kernels/cuda/ladder and the kernel that Lockstep uses, relative to the
// bandwidth of a copy. Each output line is one figure: name, value, unit and detail, separated by
// tabs.
//
//   bench_ladder [--samples N]
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "kernels/cuda/ladder/layernorm.h"
#include "tests/gpu/bench/memory_bound.h"

using namespace lockstep;

int main(int argc, char** argv) {
  int samples = 15;
  CLI::App app{"How much faster each step of a ladder is."};
  app.add_option("--samples", samples, "of which the median is taken")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    const auto gpu = gpu_library().open(0);
    Bench bench{*gpu};
    MemoryBound memory_bound{bench, Shapes{}, samples};
    memory_bound.copy();
    int number = 0;
    for (const cuda::LayerNormStep& step : cuda::layernorm_ladder())
      memory_bound.layernorm_forward(
          fmt::format("layernorm forward, step {}: {}", ++number, step.name), DType::bf16,
          step.forward);
    memory_bound.layernorm_forward(fmt::format("layernorm forward, step {}: in use", ++number),
                                   DType::bf16, bench.kernels().layernorm_forward);
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "bench_ladder: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_ladder: {}\n", error.what());
    return 1;
  }
}
