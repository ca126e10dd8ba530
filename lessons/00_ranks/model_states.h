#pragma once

#include <fmt/format.h>

#include <cstdio>

#include "core/plan/model_presets.h"

namespace lockstep {

/// Bytes of model state per parameter with Adam (Rajbhandari 2020, section 3.1): in plain f32, 4
/// (weight) + 4 (gradient) + 8 (momentum, variance) = 16; in mixed precision, 2 + 2 + 12 (master
/// copy of the weight, momentum, variance) = 16.
constexpr double model_state_bytes = 16;

/// Shows why training needs several ranks: compares the model states of some models with the 80 GB
/// of one GPU, and counts the FLOPs of training them.
inline void print_model_states() {
  struct Example {
    const char* name;
    GptConfig config;
  };
  const auto gpt = [](int layers, int hidden, int heads, int sequence) {
    return GptConfig{.layers = layers,
                     .hidden = hidden,
                     .heads = heads,
                     .sequence = sequence,
                     .vocabulary = 50257,
                     .tied = true};
  };
  const Example models[] = {
      {"GPT-2", gpt(12, 768, 12, 1024)},           {"GPT-2 XL", gpt(48, 1600, 25, 1024)},
      {"GPT-3", gpt(96, 12288, 96, 2048)},         {"Llama 3 8B", model_preset("llama3-8b")},
      {"Llama 3 70B", model_preset("llama3-70b")}, {"Llama 3 405B", model_preset("llama3-405b")}};
  fmt::print(
      "\n  model         parameters    16 bytes each   of one GPU's 80 GB   GFLOPs per token\n");
  for (const auto& [name, config] : models) {
    const double parameters = static_cast<double>(config.parameter_count());
    const double bytes = parameters * model_state_bytes;
    fmt::print("  {:<12} {:>9.2f} B     {:>9.1f} GB   {:>14.0f} %   {:>18.1f}\n", name,
               parameters * 1e-9, bytes * 1e-9, bytes / 80e9 * 100,
               config.flops_per_token() * 1e-9);
  }
  std::fflush(stdout);
}

}  // namespace lockstep
