#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "lessons/14_mixed_precision/recompute_cost.h"

namespace lockstep {

inline const char* name_of(Recompute mode) {
  constexpr const char* names[] = {"none", "selective", "full"};
  return names[static_cast<int>(mode)];
}

/// What one microbatch through the whole model takes.
struct RecomputeCount {
  std::int64_t stash = 0;  ///< bytes from its forward to its backward
  std::int64_t peak = 0;   ///< the most bytes of activations during both
  double flops = 0;        ///< of matrix products
  bool operator==(const RecomputeCount&) const = default;
};

/// By the closed forms.
inline RecomputeCount derived(const GptConfig& config, int batch, Recompute mode) {
  const RecomputeFootprint bytes{config, StageLayers::whole(config), batch, mode};
  return {bytes.stash, bytes.peak(1),
          model_flops(config, batch) + extra_flops(config, config.layers, batch, mode)};
}

/// Counted: the layers run forward and backward on a device that allocates and computes nothing,
/// where each FLOP takes one picosecond and nothing else takes any time. So models that fit on no
/// machine can be counted as well.
inline RecomputeCount counted(const GptConfig& config, int batch, Recompute mode) {
  Memory memory{DeviceKind::meta};
  const Clock clock = Clock::modelled(Cluster{});
  Recorder trace{false};
  Stream stream{clock, trace, 0, DeviceKind::meta};
  Gpt model{config, {memory, stream}, StageLayers::whole(config), 1, Recomputing<>{mode}};
  const View tokens{nullptr, {batch, config.sequence}, DType::i32};

  const Picoseconds start = stream.now();
  Stash stash;
  model.forward({.tokens = tokens, .targets = tokens}, {}, stash);
  const std::int64_t kept = memory.current().of(MemoryCategory::activations);
  model.backward({}, stash);
  return {kept, memory.peak().of(MemoryCategory::activations),
          static_cast<double>(stream.now() - start)};
}

/// All three ways on one model, derived and counted. `batch`: sequences of a microbatch.
inline void print_recompute_table(const GptConfig& config, int batch) {
  const RecomputeCount none = derived(config, batch, Recompute::none);
  const auto [unit, name] = none.peak < 100'000'000      ? std::pair{1e3, "kB"}
                            : none.peak < 10'000'000'000 ? std::pair{1e6, "MB"}
                                                         : std::pair{1e9, "GB"};
  fmt::print(
      "\n  recomputation   a microbatch keeps     highest   FLOPs beyond none's   counted\n");
  for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    const RecomputeCount formula = derived(config, batch, mode);
    fmt::print("  {:<13} {:>17.1f} {} {:>8.1f} {} {:>12.3g} {:>6.2f} %   {}\n", name_of(mode),
               static_cast<double>(formula.stash) / unit, name,
               static_cast<double>(formula.peak) / unit, name, formula.flops - none.flops,
               100 * (formula.flops / none.flops - 1),
               formula == counted(config, batch, mode) ? "=" : "differs");
  }
  std::fflush(stdout);
}

}  // namespace lockstep
