// Measures a GPU's kernels relative to the GPU's limits: kernels that only move memory against the
// bandwidth of a copy, and kernels that compute against cuBLAS's rate for a large product. Each
// output line is one figure: name, value, unit and detail, separated by tabs.
//
//   bench_gpu [--gpu N] [--samples N] [--tiny] [--own] [--list]
//
// --tiny uses small shapes, only to test that the program runs. --own leaves out cuBLASLt, which
// compute-sanitizer's racecheck breaks. --list prints the GPUs and exits.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/base/error.h"
#include "tests/gpu/bench/memory_bound.h"
#include "tests/gpu/bench/products.h"

using namespace lockstep;

int main(int argc, char** argv) {
  int index = 0, samples = 15;
  bool small = false, own = false, list = false;
  CLI::App app{"How fast a GPU's kernels are."};
  app.add_option("--gpu", index, "which GPU");
  app.add_option("--samples", samples, "of which the median is taken")->check(CLI::PositiveNumber);
  app.add_flag("--tiny", small, "shapes that prove only that it runs");
  app.add_flag("--own", own, "no products of cuBLASLt");
  app.add_flag("--list", list, "name the GPUs and end");
  CLI11_PARSE(app, argc, argv);
  try {
    GpuLibrary& library = gpu_library();
    if (list) {
      fmt::print("{}\n", library.versions());
      for (const GpuInfo& gpu : library.gpus())
        fmt::print("{}\t{}\tsm_{}\t{} multiprocessors\t{} MiB\n", gpu.name, gpu.address,
                   gpu.compute_capability, gpu.multiprocessors, gpu.memory >> 20);
      return 0;
    }
    const auto gpu = library.open(index);
    Bench bench{*gpu, small ? 1 : 1000};
    const Shapes shapes = small ? tiny : Shapes{};
    if (small) samples = 2;
    MemoryBound{bench, shapes, samples}.run();
    Products{bench, shapes, samples}.run(!own);
    return bench.failed() == 0 ? 0 : 1;
  } catch (const UsageError& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
}
