#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lessons/07_sequence_parallel/prediction.h"

namespace lockstep {

/// The activations that one transformer layer saves in Korthikanti 2022, section 4.1: 16-bit
/// tensors, one-byte dropout masks, and stored probabilities. activation_bytes() returns their
/// total, and also that of our own layer's activations.
inline std::vector<SavedActivation> paper_activations(const GptConfig& config) {
  const double h = config.hidden, as = 1.0 * config.heads * config.sequence;
  constexpr bool probabilities = true;
  return {
      {"LayerNorm: input", 2 * h, Divided::tokens},
      {"query, key and value: input", 2 * h, Divided::gathered},
      {"q and k", 4 * h, Divided::features},
      {"softmax: output", 2 * as, Divided::features, probabilities},
      {"softmax: dropout mask", as, Divided::features, probabilities},
      {"softmax: dropout output", 2 * as, Divided::features, probabilities},
      {"v", 2 * h, Divided::features},
      {"projection: input", 2 * h, Divided::features},
      {"attention: dropout mask", h, Divided::tokens},
      {"LayerNorm: input", 2 * h, Divided::tokens},
      {"MLP: input", 2 * h, Divided::gathered},
      {"GELU: input", 8 * h, Divided::features},
      {"MLP's projection: input", 8 * h, Divided::features},
      {"MLP: dropout mask", h, Divided::tokens},
  };
}

/// The techniques of Korthikanti's table 2.
enum class Saving { none, tensor, sequence, selective, full };
inline constexpr Saving all_savings[] = {Saving::none, Saving::tensor, Saving::sequence,
                                         Saving::selective, Saving::full};

/// Returns the bytes of activations that a rank saves for one layer of the paper.
inline double paper_bytes(const GptConfig& config, int batch, int t, Saving saving) {
  std::vector<SavedActivation> saved = paper_activations(config);
  if (saving == Saving::selective) std::erase_if(saved, &SavedActivation::probabilities);
  if (saving == Saving::full) saved.resize(1);  // the layer's input
  const Divisors parts = saving == Saving::none || saving == Saving::full ? Divisors{}
                         : saving == Saving::tensor                       ? tensor_divisors(t)
                                                    : sequence_divisors(t, /*regather=*/true);
  return activation_bytes(saved, static_cast<std::int64_t>(batch) * config.sequence, parts);
}

/// The activations that one layer saves per sequence: ours on this plan's ranks, and the paper's in
/// two of its models.
inline std::string activation_table(const Plan& plan) {
  const GptConfig large{.layers = 48, .hidden = 6144, .heads = 64, .sequence = 2048};
  const GptConfig larger{.layers = 105, .hidden = 20480, .heads = 128, .sequence = 2048};
  const GptConfig& ours = plan.model();
  const int t = plan.mesh.size(Axis::tp);
  const auto our_bytes = [&](const Divisors& parts) {
    return activation_bytes(block_activations(ours), ours.sequence, parts) / 1e3;
  };
  std::string text = fmt::format("  saved per layer and sequence, this model:  {:>10}\n", "kB");
  const auto row = [&](const std::string& name, double kilobytes) {
    text += fmt::format("  {:<41}  {:>10.1f}\n", name, kilobytes);
  };
  row("one device", our_bytes({}));
  row(fmt::format("tensor parallel, t = {}", t), our_bytes(tensor_divisors(t)));
  row("+ sequence parallel", our_bytes(sequence_divisors(t, false)));
  row("+ --regather", our_bytes(sequence_divisors(t, true)));
  text += fmt::format("\n  {:<41}  {:>10}  {:>10}\n",
                      "Korthikanti 2022, 16 bits, t = 8, MB:", "22B", "530B");
  for (const Saving saving : all_savings) {
    constexpr const char* formulas[] = {"sbh (34 + 5as/h)", "sbh (10 + 24/t + 5as/(ht))",
                                        "(sbh/t) (34 + 5as/h)", "34 sbh/t", "2 sbh"};
    constexpr const char* names[] = {"none", "tensor", "+ sequence", "+ selective", "full"};
    const auto i = static_cast<std::size_t>(saving);
    text += fmt::format("  {:<12} {:<28}  {:>10.1f}  {:>10.1f}\n", names[i], formulas[i],
                        paper_bytes(large, 1, 8, saving) / 1e6,
                        paper_bytes(larger, 1, 8, saving) / 1e6);
  }
  return text;
}

inline void print_activations(const Plan& plan) {
  fmt::print("\n{}\n", activation_table(plan));
}

}  // namespace lockstep
