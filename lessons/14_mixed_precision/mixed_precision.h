#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "core/device/host_copy.h"
#include "core/model/adamw.h"
#include "core/model/gpt.h"
#include "core/plan/footprint.h"
#include "core/run/report/solo_device.h"
#include "lessons/03_zero_1/zero_memory.h"
#include "lessons/14_mixed_precision/loss_scaling.h"

namespace lockstep {

// -- the 16 bytes per parameter
// -----------------------------------------------------------------------

/// Returns the bytes of a whole model on one device as the allocator counts them after building the
/// model and its optimizer. Uses the meta device, so any size can be counted. Activations are the
/// peak of one microbatch of `batch` sequences.
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
  model.forward({.tokens = tokens, .targets = tokens}, {}, stash);
  model.backward({}, stash);
  return memory.peak();
}

/// Prints the model states in f32 and in `narrow`, by category, in bytes per parameter: the derived
/// value, then "=" if the allocator agrees, or "/" and the allocator's value.
inline void print_states(const GptConfig& config, DType narrow, int batch) {
  const std::int64_t parameters = config.parameter_count();
  const auto each = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(parameters);
  };
  const DType types[] = {DType::f32, narrow};
  fmt::print("\n  bytes a parameter     {:>8}     {:>8}\n", name_of(types[0]), name_of(types[1]));
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
      "together", [&](DType d) { return states(d).total() + extra(d); },
      [&](DType d) {
        const MemoryUse use = counted_states(config, d, batch);
        return use.total() - use.of(MemoryCategory::activations);
      });
  row(
      "activations", [&](DType d) { return footprint(d).peak(1); },
      of(MemoryCategory::activations));
  fmt::print(
      "  optimizer: momentum and variance, 4 + 4; beside narrow weights a master copy, 4\n"
      "  '=': the allocator counts just that. Activations: the peak of {} sequences\n",
      batch);
}

// -- gradients in narrow types
// ---------------------------------------------------------------------

/// A whole model with given weights, on its own device.
struct Probe {
  Probe(GptConfig config, DType dtype, Device from, const std::vector<Parameter*>& weights)
      : device(from.compute.gpu() != nullptr),
        model(as(config, dtype), device, StageLayers::whole(config), 0) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      from_host(device, weights[i]->f32_values(from), model.parameters()[i]->value);
  }
  static GptConfig as(GptConfig config, DType dtype) {
    config.dtype = dtype;
    return config;
  }
  /// Returns all gradients of the batch, concatenated.
  std::vector<float> gradients(const Batch& batch) {
    accumulate_gradients(model, batch);
    std::vector<float> all;
    for (const Parameter* parameter : model.parameters()) {
      const std::vector<float> wide = to_host(device, parameter->gradient);
      all.insert(all.end(), wide.begin(), wide.end());
    }
    return all;
  }

  SoloDevice device;
  Gpt model;
};

/// The loss of information when a batch's gradients are computed in a narrow type.
struct Lost {
  double to_zero = 0;      ///< share of the gradients that are nonzero in f32 and zero here
  double to_infinity = 0;  ///< share of the gradients that are infinite or NaN
  double error = 0;        ///< ‖narrow / scale − f32‖₂ / ‖f32‖₂
};

inline Lost lost_gradients(const std::vector<float>& f32, const std::vector<float>& narrow,
                           double scale) {
  double there = 0, zero = 0, infinite = 0, difference = 0, norm = 0;
  for (std::size_t i = 0; i < f32.size(); ++i) {
    there += f32[i] != 0 ? 1 : 0;
    zero += f32[i] != 0 && narrow[i] == 0 ? 1 : 0;
    infinite += std::isfinite(narrow[i]) ? 0 : 1;
    difference += std::pow(static_cast<double>(narrow[i]) / scale - static_cast<double>(f32[i]), 2);
    norm += std::pow(static_cast<double>(f32[i]), 2);
  }
  return {zero / std::max(there, 1.0), infinite / static_cast<double>(f32.size()),
          std::sqrt(difference / norm)};
}

/// Compares the gradients of one batch at these weights, in each narrow type, with those in f32.
inline void print_lost_gradients(const GptConfig& config, Device device,
                                 const std::vector<Parameter*>& weights, const Batch& batch) {
  const std::vector<float> f32 = Probe{config, DType::f32, device, weights}.gradients(batch);
  fmt::print("\n  gradients   loss scale   flushed to zero   overflowed   error\n");
  const std::pair<DType, double> cases[] = {{DType::bf16, 1},
                                            {DType::bf16, 1.0 / 1024},
                                            {DType::f16, 1.0 / 1024},
                                            {DType::f16, 1},
                                            {DType::f16, LossScaler::f16_default},
                                            {DType::f16, 0x1p30}};
  for (const auto& [dtype, scale] : cases) {
    const Lost lost = lost_gradients(
        f32,
        Probe{config, dtype, device, weights}.gradients(scaled(batch, static_cast<float>(scale))),
        scale);
    fmt::print(
        "  {:<9} {:>12} {:>15.2f} % {:>10.2f} %   {}\n", name_of(dtype),
        scale < 1 ? fmt::format("1/{:.0f}", 1 / scale) : fmt::format("{:.0f}", scale),
        100 * lost.to_zero, 100 * lost.to_infinity,
        std::isfinite(lost.error) ? fmt::format("{:.2f} %", 100 * lost.error) : "all is lost");
  }
  fmt::print(
      "  of the last batch, at the final weights; shares of those that are not zero in f32. 1/1024 "
      "is\n  what a batch of 1024 times as many tokens does to the loss of each\n");
}

/// Prints each change of the loss scale and the steps that were skipped.
inline void print_scaling(const LossScaler& scaler) {
  fmt::print("\n  loss scale {:.0f} at the end\n", static_cast<double>(scaler.scale()));
  for (const LossScaler::Change& change : scaler.changes())
    fmt::print("  step {}: {}, loss scale {:.0f} -> {:.0f}\n", change.step,
               change.to < change.from ? "overflow, step skipped" : "no overflow for long",
               change.from, change.to);
}

}  // namespace lockstep
