#pragma once

#include <fmt/format.h>

#include <cstdio>

#include "core/plan/gpt_config.h"

namespace lockstep {

/// Bytes of model state per parameter with Adam (Rajbhandari 2020, section 3.1): in plain f32, 4
/// (weight) + 4 (gradient) + 8 (momentum, variance) = 16; in mixed precision, 2 + 2 + 12 (master
/// copy of the weight, momentum, variance) = 16.
constexpr double model_state_bytes = 16;

/// Shows why training needs several ranks: compares the model states of some GPTs with the 80 GB of
/// one GPU.
inline void print_model_states() {
  struct Example {
    const char* name;
    GptConfig config;
  };
  const Example models[] = {{"GPT-2",
                             {.layers = 12,
                              .hidden = 768,
                              .heads = 12,
                              .sequence = 1024,
                              .vocabulary = 50257,
                              .tied = true}},
                            {"GPT-2 XL",
                             {.layers = 48,
                              .hidden = 1600,
                              .heads = 25,
                              .sequence = 1024,
                              .vocabulary = 50257,
                              .tied = true}},
                            {"GPT-3",
                             {.layers = 96,
                              .hidden = 12288,
                              .heads = 96,
                              .sequence = 2048,
                              .vocabulary = 50257,
                              .tied = true}}};
  fmt::print("\n  model       parameters    16 bytes each   of one GPU's 80 GB\n");
  for (const auto& [name, config] : models) {
    const double parameters = static_cast<double>(config.parameter_count());
    const double bytes = parameters * model_state_bytes;
    fmt::print("  {:<10} {:>9.2f} B     {:>9.1f} GB   {:>14.0f} %\n", name, parameters * 1e-9,
               bytes * 1e-9, bytes / 80e9 * 100);
  }
  std::fflush(stdout);
}

}  // namespace lockstep
