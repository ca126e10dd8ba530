#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "core/model/adamw.h"
#include "core/model/gpt.h"
#include "core/plan/footprint.h"
#include "lessons/03_zero_1/zero_memory.h"

namespace lockstep {

/// Returns the memory of a whole model on one device, as counted by the allocator after building
/// the model and its optimizer. Uses the meta device, so any size can be counted. The activations
/// are those at the peak of one microbatch of `batch` sequences.
inline MemoryUse counted_states(GptConfig config, DType dtype, int batch) {
  config.dtype = dtype;
  Memory memory{DeviceKind::meta};
  const Clock clock = Clock::wall();
  Recorder silent{false};
  Stream compute{clock, silent, 0, DeviceKind::meta};
  Gpt model{config, {memory, compute}, StageLayers::whole(config), 0};
  const AdamW optimizer{model.parameters(), {memory, compute}};
  const View tokens{nullptr, {batch, config.sequence}, DType::i32};
  Stash stash;
  model.forward({.tokens = tokens, .targets = tokens, .positions = tokens}, {}, stash);
  model.backward({}, stash);
  return memory.peak();
}

/// Prints the model states in f32 and in `narrow`, by category, in bytes per parameter: the derived
/// value, followed by "=" if the allocator's value is equal, or else by "/" and the allocator's
/// value.
inline void print_states(const GptConfig& config, DType narrow, int batch) {
  const std::int64_t parameters = config.parameter_count();
  const auto each = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(parameters);
  };
  const DType types[] = {DType::f32, narrow};
  fmt::print("\n  bytes per parameter   {:>8}     {:>8}\n", name_of(types[0]), name_of(types[1]));
  const auto row = [&](const char* what, auto&& derived, auto&& counted) {
    fmt::print("  {:<19}", what);
    for (const DType dtype : types) {
      const std::int64_t want = derived(dtype), got = counted(dtype);
      fmt::print("   {:>8.2f} {}", each(want),
                 want == got ? std::string{"="} : fmt::format("/ {:.2f}", each(got)));
    }
    fmt::print("\n");
  };
  const auto states = [&](DType dtype) {
    return zero_states(0, parameters, 1, is_narrow(dtype) ? mixed_states : f32_states);
  };
  const auto footprint = [&](DType dtype) {
    GptConfig as = config;
    as.dtype = dtype;
    return Footprint{as, StageLayers::whole(as), batch};
  };
  // A tied head on the same stage as the embedding has a gradient separate from the table's.
  const std::int64_t tied =
      config.tied ? std::int64_t{config.vocabulary} * config.hidden : std::int64_t{0};
  const auto extra = [&](DType dtype) { return static_cast<std::int64_t>(size_of(dtype)) * tied; };
  const auto of = [&](MemoryCategory category) {
    return [&config, batch, category](DType dtype) {
      return counted_states(config, dtype, batch).of(category);
    };
  };
  row(
      "weights", [&](DType d) { return states(d).parameters; }, of(MemoryCategory::parameters));
  row(
      "gradients", [&](DType d) { return states(d).gradients + extra(d); },
      of(MemoryCategory::gradients));
  row(
      "optimizer", [&](DType d) { return states(d).optimizer; }, of(MemoryCategory::optimizer));
  row(
      "model states", [&](DType d) { return states(d).total() + extra(d); },
      [&](DType d) {
        const MemoryUse use = counted_states(config, d, batch);
        return use.total() - use.of(MemoryCategory::activations);
      });
  row(
      "activations", [&](DType d) { return footprint(d).peak(1); },
      of(MemoryCategory::activations));
  fmt::print(
      "  optimizer: momentum and variance, 4 + 4; for 16-bit weights also an f32 master copy, 4\n"
      "  =: the allocator counted the same bytes. Activations: the peak for {} sequences\n",
      batch);
}

}  // namespace lockstep
