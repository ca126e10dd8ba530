#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

/// How Llama 3.1 stretches the wavelengths of rotary positions for sequences that are longer than
/// those of its first training ("rope_scaling" of type "llama3" in config.json).
struct RotaryScaling {
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_sequence = 8192;
  bool operator==(const RotaryScaling&) const = default;
};

/// The settings that only a Llama uses.
struct LlamaConfig {
  int kv_heads = 2;       ///< g, heads of keys and of values; divides the heads of queries
  int mlp_width = 176;    ///< f
  double theta = 10000;   ///< the base of the rotary positions' wavelengths
  double epsilon = 1e-5;  ///< RMSNorm's
  std::optional<RotaryScaling> scaling{};
  /// The longest sequence according to the config.json from which the model was read; 0 if there is
  /// none.
  int longest_sequence = 0;
  bool operator==(const LlamaConfig&) const = default;
};

/// The configuration of a decoder-only transformer of one of two families.
///
/// - GPT-2 (Radford 2019): learned positions, LayerNorm, an MLP of width 4 h with tanh-GELU, and
///   biases.
/// - Llama (Touvron 2023, Grattafiori 2024): rotary positions, RMSNorm, an MLP of width f with
///   SwiGLU, grouped-query attention, and no biases.
struct GptConfig {
  int layers = 8;        ///< L
  int hidden = 64;       ///< h
  int heads = 4;         ///< a; divides h
  int sequence = 64;     ///< s; for GPT-2, also the number of learned positions
  int vocabulary = 256;  ///< V
  bool tied = false;     ///< the output head is the token table, as in GPT-2 itself

  /// Units that keep their initial values, without gradients or optimizer states (Unit::index: 0
  /// the embedding, 1 .. L the blocks, L + 1 the head).
  std::vector<int> frozen{};
  bool is_frozen(int unit) const { return std::ranges::count(frozen, unit) > 0; }

  /// The storage type of weights, gradients and activations (including logits). Arithmetic,
  /// statistics (the norms', log-sum-exps, losses) and optimizer states are always f32.
  DType dtype = DType::f32;

  std::optional<LlamaConfig> llama{};  ///< unset: the model is a GPT-2

  /// d = h / a, the columns of one head.
  int head_width() const { return hidden / heads; }
  /// Returns g, the heads of keys and of values; in GPT-2, there are as many as heads of queries.
  int kv_heads() const { return llama ? llama->kv_heads : heads; }
  /// The columns of keys, or of values: g d.
  int kv_width() const { return kv_heads() * head_width(); }
  /// The columns of queries, keys and values together: h + 2 g d.
  int qkv_width() const { return hidden + 2 * kv_width(); }
  /// The columns of the MLP's activation: 4 h, or f.
  int mlp_width() const { return llama ? llama->mlp_width : 4 * hidden; }
  /// The columns that the MLP's first Linear computes: 4 h, or 2 f (SwiGLU's gate and its factor).
  int mlp_inner_width() const { return llama ? 2 * llama->mlp_width : 4 * hidden; }
  /// The number of parameter vectors of h elements in a norm (gain and bias, or gain alone), and
  /// also the number of statistics per row (mean and rstd, or rstd alone).
  int norm_vectors() const { return llama ? 1 : 2; }
  /// The elements of a block's matrices: 12 h², or 2 h² + 2 g d h + 3 f h. A forward pass takes
  /// twice as many FLOPs per token, plus those of attention.
  double matrix_elements_per_block() const {
    const double h = hidden;
    return h * (qkv_width() + h + mlp_inner_width() + mlp_width());
  }
  /// The elements that a block saves per token for the backward pass, without statistics: 16 h, or
  /// 6 h + 2 g d + 3 f (core/plan/footprint.h).
  std::int64_t saved_per_block() const {
    return std::int64_t{5} * hidden + qkv_width() + mlp_inner_width() + mlp_width();
  }

  /// Throws UsageError for an invalid configuration; the one-line message names the flag, its value
  /// and valid values.
  void validate() const;
  /// Returns the number of parameters.
  ///
  /// - GPT-2: 12 L h² + 13 L h + (V + s) h (Narayanan 2021), and 2 h for the final LayerNorm, which
  ///   that formula omits.
  /// - Llama: L (2 h² + 2 g d h + 3 f h + 2 h) + V h + h.
  ///
  /// An untied head adds V h.
  std::int64_t parameter_count() const;
  /// Returns the parameter count without frozen units.
  std::int64_t trained_count() const;
  /// Returns the model FLOPs of a training step per token: 6 (L (matrix_elements_per_block() + s h)
  /// + V h), three times the forward pass (Narayanan 2021, without recomputation and with causal
  /// attention, s h, counted half). For GPT-2 6 (L (12 h² + s h) + V h). Publications count
  /// attention in full (core/plan/flops.h).
  double flops_per_token() const;

  bool operator==(const GptConfig&) const = default;
};

}  // namespace lockstep
