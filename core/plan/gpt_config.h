#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

/// The configuration of a GPT-2 model: learned positions, pre-LayerNorm, tanh-GELU, MLP of width 4
/// h.
struct GptConfig {
  int layers = 8;        ///< L
  int hidden = 64;       ///< h
  int heads = 4;         ///< a; divides h
  int sequence = 64;     ///< s, the number of learned positions
  int vocabulary = 256;  ///< V
  bool tied = false;     ///< the output head is the token table, as in GPT-2 itself

  /// Units that keep their initial values, without gradients or optimizer states (Unit::index: 0
  /// the embedding, 1 .. L the blocks, L + 1 the head).
  std::vector<int> frozen{};
  bool is_frozen(int unit) const { return std::ranges::count(frozen, unit) > 0; }

  /// The storage type of weights, gradients and activations (including logits). Arithmetic,
  /// statistics (LayerNorm's, log-sum-exps, losses) and optimizer states are always f32.
  DType dtype = DType::f32;

  /// Throws UsageError for an invalid configuration; the one-line message names the flag, its value
  /// and valid values.
  void validate() const;
  /// Returns 12 L h² + 13 L h + (V + s) h (Narayanan 2021), plus 2 h for the final LayerNorm, which
  /// that formula omits, plus V h for an untied head.
  std::int64_t parameter_count() const;
  /// Returns the parameter count without frozen units.
  std::int64_t trained_count() const;

  bool operator==(const GptConfig&) const = default;
};

}  // namespace lockstep
