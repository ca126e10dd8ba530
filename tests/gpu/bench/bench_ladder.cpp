// Measures the steps of kernels/cuda/ladder and the kernel that Lockstep uses, relative to the
// bandwidth of a copy or the rate of a large product. Each output line is one figure: name, value,
// unit and detail, separated by tabs.
//
//   bench_ladder [--samples N]
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "kernels/cuda/ladder/attention.h"
#include "kernels/cuda/ladder/cross_entropy.h"
#include "kernels/cuda/ladder/layernorm.h"
#include "kernels/cuda/ladder/matrix_product.h"
#include "tests/gpu/bench/memory_bound.h"
#include "tests/gpu/bench/products.h"

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
    bench.attempt("layernorm ladder", [&] {
      const auto layernorms = cuda::layernorm_ladder();
      for (std::size_t i = 0; i < layernorms.size(); ++i)
        memory_bound.layernorm_forward(name("layernorm forward", i + 1, layernorms[i].name),
                                       DType::bf16, layernorms[i].forward);
      memory_bound.layernorm_forward(name("layernorm forward", layernorms.size() + 1, "in use"),
                                     DType::bf16, bench.kernels().layernorm_forward);
    });
    bench.attempt("cross-entropy ladder", [&] {
      const auto losses = cuda::cross_entropy_ladder();
      for (std::size_t i = 0; i < losses.size(); ++i)
        memory_bound.cross_entropy_forward(name("cross-entropy forward", i + 1, losses[i].name),
                                           DType::bf16, losses[i].forward);
      memory_bound.cross_entropy_forward(name("cross-entropy forward", losses.size() + 1, "in use"),
                                         DType::bf16, bench.kernels().cross_entropy_forward);
    });
    Products products{bench, Shapes{}, samples};
    for (const DType dtype : {DType::f32, DType::bf16}) products.large_product(dtype);
    bench.attempt("matrix product ladder", [&] {
      const auto matrix_products = cuda::matrix_product_ladder();
      for (std::size_t i = 0; i < matrix_products.size(); ++i)
        products.linear_forward(name("matrix product", i + 1, matrix_products[i].name), DType::bf16,
                                matrix_products[i].forward);
      products.linear_forward(name("matrix product", matrix_products.size() + 1, "in use"),
                              DType::bf16, bench.kernels().linear_forward);
    });
    bench.attempt("attention ladder", [&] {
      const auto attentions = cuda::attention_ladder();
      for (std::size_t i = 0; i < attentions.size(); ++i)
        products.attention_forward(name("attention forward", i + 1, attentions[i].name),
                                   DType::bf16, attentions[i].forward);
      products.attention_forward(name("attention forward", attentions.size() + 1, "in use, f32"),
                                 DType::f32, bench.kernels().attention_forward);
      products.attention_forward(name("attention forward", attentions.size() + 2, "in use"),
                                 DType::bf16, bench.kernels().attention_forward);
    });
    return bench.failed() == 0 ? 0 : 1;
  } catch (const UsageError& error) {
    fmt::print(stderr, "bench_ladder: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_ladder: {}\n", error.what());
    return 1;
  }
}
