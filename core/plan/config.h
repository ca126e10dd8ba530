#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

/// The size of a GPT-2: learned positions, pre-LayerNorm, tanh-GELU, Mlp of 4 h.
struct GptConfig {
  int layers = 8;        ///< L
  int hidden = 64;       ///< h
  int heads = 4;         ///< a; divides h
  int sequence = 64;     ///< s, the longest that positions are learned for
  int vocabulary = 256;  ///< V
  bool tied = false;     ///< the output head is the token table, as in GPT-2 itself

  /// Units (Unit::index: 0 the embedding, 1 .. L the blocks, L + 1 the head) that keep the values
  /// they begin with: they have neither gradients nor optimizer states.
  std::vector<int> frozen{};
  bool is_frozen(int unit) const { return std::ranges::count(frozen, unit) > 0; }

  /// What weights, gradients and activations (logits too) are stored in. Arithmetic is f32, and so
  /// are statistics (LayerNorm's, log-sum-exps, losses) and all that the optimizer keeps.
  DType dtype = DType::f32;

  /// Throws UsageError, one line that names the flag, its value and what would do.
  void validate() const;
  /// 12 L h² + 13 L h + (V + s) h (Narayanan 2021), + 2 h for the final LayerNorm that the formula
  /// leaves out, + V h for a head of its own where untied.
  std::int64_t parameter_count() const;
  /// Without what is frozen.
  std::int64_t trained_count() const;

  bool operator==(const GptConfig&) const = default;
};

}  // namespace lockstep
