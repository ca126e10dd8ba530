#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "core/device/host_copy.h"
#include "core/model/gpt.h"
#include "core/run/reference/solo_device.h"
#include "lessons/14_mixed_precision/mixed_precision.h"

namespace lockstep {

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

/// The loss of information when a batch's gradients are computed in a 16-bit type.
struct Lost {
  double to_zero = 0;      ///< share of gradients that are nonzero in f32 and zero in 16 bits
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

/// Compares the gradients of one batch at the given weights, in each 16-bit type, with those in
/// f32.
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
        std::isfinite(lost.error) ? fmt::format("{:.2f} %", 100 * lost.error) : "not finite");
  }
  fmt::print(
      "  for the last batch, at the final weights. Flushed to zero: of the gradients that are not "
      "zero\n"
      "  in f32. A loss scale of 1/1024 has the effect of a batch with 1024 times as many "
      "tokens.\n");
}

/// Prints each change of the loss scale and the steps that were skipped.
inline void print_scaling(const LossScaler& scaler) {
  fmt::print("\n  final loss scale: {:.0f}\n", static_cast<double>(scaler.scale()));
  for (const LossScaler::Change& change : scaler.changes())
    fmt::print("  step {}: {}, loss scale {:.0f} -> {:.0f}\n", change.step,
               change.to < change.from
                   ? std::string{"overflow, step skipped"}
                   : fmt::format("{} steps without overflow", scaler.growth_interval()),
               change.from, change.to);
}

}  // namespace lockstep
