// Measures the steps of kernels/cuda/ladder and the kernel that Lockstep uses, relative to the
// bandwidth of a copy. Each output line is one figure: name, value, unit and detail, separated by
// tabs.
//
//   bench_ladder [--samples N]
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "kernels/cuda/ladder/cross_entropy.h"
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
    const auto name = [](const char* kernel, std::size_t number, const std::string& step) {
      return fmt::format("{}, step {}: {}", kernel, number, step);
    };
    const auto layernorms = cuda::layernorm_ladder();
    for (std::size_t i = 0; i < layernorms.size(); ++i)
      memory_bound.layernorm_forward(name("layernorm forward", i + 1, layernorms[i].name),
                                     DType::bf16, layernorms[i].forward);
    memory_bound.layernorm_forward(name("layernorm forward", layernorms.size() + 1, "in use"),
                                   DType::bf16, bench.kernels().layernorm_forward);
    const auto losses = cuda::cross_entropy_ladder();
    for (std::size_t i = 0; i < losses.size(); ++i)
      memory_bound.cross_entropy_forward(name("cross-entropy forward", i + 1, losses[i].name),
                                         DType::bf16, losses[i].forward);
    memory_bound.cross_entropy_forward(name("cross-entropy forward", losses.size() + 1, "in use"),
                                       DType::bf16, bench.kernels().cross_entropy_forward);
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "bench_ladder: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_ladder: {}\n", error.what());
    return 1;
  }
}
