// Measures the steps of kernels/cuda/ladder and the kernel that Lockstep uses, relative to the
// bandwidth of a copy or the rate of a large product. Each output line is one figure: name, value,
// unit and detail, separated by tabs.
//
//   bench_ladder [LADDER [STEP]] [--samples N]
//
// With LADDER, such as attention or "layernorm backward", measures only ladders whose names begin
// so; with STEP, only that step.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "kernels/cuda/ladder/attention.h"
#include "kernels/cuda/ladder/cross_entropy.h"
#include "kernels/cuda/ladder/gelu.h"
#include "kernels/cuda/ladder/layernorm.h"
#include "kernels/cuda/ladder/layernorm_backward.h"
#include "kernels/cuda/ladder/matrix_product.h"
#include "tests/gpu/bench/memory_bound.h"
#include "tests/gpu/bench/products.h"

using namespace lockstep;

namespace {

/// One step, to be measured under the name that it gets.
struct Rung {
  std::string what;
  std::function<void(const std::string& name)> measure;
};
struct Ladder {
  std::string name;
  std::vector<Rung> rungs;
  bool computes;  ///< compared with a large product, otherwise with a copy
};

/// Returns a ladder whose last step is the kernel in use; without steps if the build left them out.
/// `measure` is a member of MemoryBound or Products.
template <class K, class Suite>
Ladder ladder(Bench& bench, const char* name, std::vector<cuda::Step<K>> (*steps)(),
              const K& in_use, Suite& suite,
              void (Suite::*measure)(const std::string&, DType, const K&)) {
  Ladder result{name, {}, std::is_same_v<Suite, Products>};
  const auto add = [&](const std::string& what, const K& kernel, DType dtype) {
    result.rungs.push_back(
        {what, [=, &suite](const std::string& as) { (suite.*measure)(as, dtype, kernel); }});
  };
  bench.attempt(result.name + " ladder", [&] {
    for (const cuda::Step<K>& step : steps()) add(step.name, step.kernel, DType::bf16);
    if (result.name == "attention forward") add("in use, f32", in_use, DType::f32);
    add("in use", in_use, DType::bf16);
  });
  return result;
}

std::vector<Ladder> all_ladders(Bench& bench, MemoryBound& memory, Products& products) {
  const Kernels& k = bench.kernels();
  return {ladder(bench, "gelu forward", cuda::gelu_ladder, k.gelu_forward, memory,
                 &MemoryBound::gelu_forward),
          ladder(bench, "layernorm forward", cuda::layernorm_ladder, k.layernorm_forward, memory,
                 &MemoryBound::layernorm_forward),
          ladder(bench, "layernorm backward input", cuda::layernorm_backward_ladder,
                 k.layernorm_backward_input, memory, &MemoryBound::layernorm_backward_input),
          ladder(bench, "cross-entropy forward", cuda::cross_entropy_ladder,
                 k.cross_entropy_forward, memory, &MemoryBound::cross_entropy_forward),
          ladder(bench, "matrix product", cuda::matrix_product_ladder, k.linear_forward, products,
                 &Products::linear_forward),
          ladder(bench, "attention forward", cuda::attention_ladder, k.attention_forward, products,
                 &Products::attention_forward)};
}

}  // namespace

int main(int argc, char** argv) {
  int samples = 15, step = 0;  // 0: all
  std::string wanted;
  CLI::App app{"How much faster each step of a ladder is."};
  app.add_option("ladder", wanted, "only ladders whose names begin so");
  app.add_option("step", step, "only this step")->check(CLI::PositiveNumber);
  app.add_option("--samples", samples, "of which the median is taken")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    const auto gpu = gpu_library().open(0);
    Bench bench{*gpu};
    MemoryBound memory{bench, Shapes{}, samples};
    Products products{bench, Shapes{}, samples};
    std::vector<Ladder> ladders = all_ladders(bench, memory, products);
    const auto number = static_cast<std::size_t>(step);
    std::erase_if(ladders, [&](const Ladder& each) {
      return !each.name.starts_with(wanted) || number > each.rungs.size();
    });
    if (ladders.empty())
      throw UsageError(fmt::format("there is no such ladder or step: '{}' {}", wanted, step));
    const auto climb = [&](bool computes, const std::function<void()>& yardstick) {
      bool measured = false;
      for (const Ladder& each : ladders) {
        if (each.computes != computes) continue;
        if (!measured) yardstick();
        measured = true;
        for (std::size_t i = 1; i <= each.rungs.size(); ++i)
          if (number == 0 || number == i)
            bench.attempt(each.name + " ladder", [&] {
              const Rung& rung = each.rungs[i - 1];
              rung.measure(fmt::format("{}, step {}: {}", each.name, i, rung.what));
            });
      }
    };
    climb(false, [&] { memory.copy(); });
    climb(true, [&] {
      for (const DType dtype : {DType::f32, DType::bf16}) products.large_product(dtype);
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
