#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "lessons/14_mixed_precision/recompute_cost.h"

namespace lockstep {

/// The cost of running one microbatch through the whole model.
struct RecomputeCount {
  std::int64_t stash = 0;  ///< bytes kept between its forward and backward passes
  std::int64_t peak = 0;   ///< peak bytes of activations during both passes
  double flops = 0;        ///< FLOPs of matrix products
  bool operator==(const RecomputeCount&) const = default;
};

/// Returns the cost according to the closed forms.
inline RecomputeCount derived(const GptConfig& config, int batch, Recompute mode) {
  const RecomputeBytes bytes{config, batch, mode};
  return {bytes.saved, bytes.peak,
          model_flops(config, batch) + extra_flops(config, config.layers, batch, mode)};
}

/// Runs the layers' forward and backward passes for one microbatch on a device that allocates and
/// computes nothing, so it can count the cost of models that are too large for any machine. Returns
/// the modelled time and puts the bytes in `count`.
inline Picoseconds run_uncomputed(const GptConfig& config, int batch, Recompute mode,
                                  const Cluster& cluster, RecomputeCount& count) {
  Memory memory{DeviceKind::meta};
  const Clock clock = Clock::modelled(cluster);
  Recorder trace{false};
  Stream stream{clock, trace, 0, DeviceKind::meta};
  Gpt model{config, {memory, stream}, StageLayers::whole(config), 1, Recomputing<>{mode}};
  const View tokens{nullptr, {batch, config.sequence}, DType::i32};

  const Picoseconds start = stream.now();
  Stash stash;
  model.forward({.tokens = tokens, .targets = tokens, .positions = tokens}, {}, stash);
  count.stash = memory.current().of(MemoryCategory::activations);
  model.backward({}, stash);
  count.peak = memory.peak().of(MemoryCategory::activations);
  return stream.now() - start;
}

/// Returns the cost counted by running the layers.
inline RecomputeCount counted(const GptConfig& config, int batch, Recompute mode) {
  RecomputeCount count;
  // On this cluster one FLOP takes one picosecond and everything else takes no time.
  count.flops = static_cast<double>(run_uncomputed(config, batch, mode, {.flops = 1e12}, count));
  return count;
}

/// Prints the three modes for one model: the formula's values, "=" if the counted values are
/// exactly equal, and the modelled time of a microbatch (`batch` sequences) on one rank of
/// `cluster`.
inline void print_recompute_table(const std::string& title, const GptConfig& config, int batch,
                                  const Cluster& cluster) {
  const RecomputeCount none = derived(config, batch, Recompute::none);
  const auto [unit, name] = none.peak < 100'000'000      ? std::pair{1e3, "kB"}
                            : none.peak < 10'000'000'000 ? std::pair{1e6, "MB"}
                                                         : std::pair{1e9, "GB"};
  fmt::print("\n  {}\n", title);
  fmt::print("  recomputation       stored        peak   extra FLOPs   counted   on {}\n",
             cluster.name);
  for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    const RecomputeCount formula = derived(config, batch, mode);
    RecomputeCount count = counted(config, batch, mode);
    const char* verdict = formula == count ? "=" : "differs";
    const Picoseconds time = run_uncomputed(config, batch, mode, cluster, count);
    fmt::print("  {:<13} {:>9.1f} {} {:>8.1f} {} {:>11.2f} %   {:<7} {:>10.3f} ms\n", name_of(mode),
               static_cast<double>(formula.stash) / unit, name,
               static_cast<double>(formula.peak) / unit, name,
               100 * (formula.flops / none.flops - 1), verdict, static_cast<double>(time) * 1e-9);
  }
  std::fflush(stdout);
}

/// Prints the tables for the run's own model and for GPT-3 (as if GPT-3 fitted on one GPU).
inline void print_recompute_tables(const GptConfig& config, int batch, const Cluster& cluster) {
  GptConfig gpt3{.layers = 96, .hidden = 12288, .heads = 96, .sequence = 2048, .vocabulary = 50257};
  gpt3.dtype = config.dtype;
  const auto title = [](const char* name, const GptConfig& c, int b) {
    return fmt::format("{}: {} layers, h = {}, a microbatch of {} x {} tokens, {}, modelled time",
                       name, c.layers, c.hidden, b, c.sequence, name_of(c.dtype));
  };
  print_recompute_table(title("this model", config, batch), config, batch, cluster);
  // A measured rate of attention includes the traffic of its probabilities, whether or not it keeps
  // them.
  Cluster a100 = Cluster::load("a100");
  a100.name = "a100, peak";
  a100.rates.reset();
  print_recompute_table(title("GPT-3", gpt3, 1), gpt3, 1, a100);
}

}  // namespace lockstep
