#pragma once

#include <cstdint>
#include <vector>

#include "lessons/06_tensor_parallel/tensor_parallel.h"

namespace lockstep {

/// How t ranks divide an activation that the forward pass saves for the backward pass.
enum class Divided {
  features,  ///< by columns or heads: between a column-parallel and a row-parallel layer
  tokens,    ///< outside the products, where only sequence parallelism divides activations
  gathered,  ///< the input of a column-parallel layer, which needs all tokens and all features
  not_at_all,
};

/// The number of parts of each kind of activation: t or 1.
struct Divisors {
  std::int64_t features = 1;
  std::int64_t tokens = 1;
  std::int64_t gathered = 1;
};

/// The divisors of tensor parallelism: the inputs of norms and of column-parallel layers are whole
/// on every rank.
inline Divisors tensor_divisors(int t) {
  return {.features = t};
}

struct SavedActivation {
  const char* name;
  double bytes;  ///< per token, on one device
  Divided divided;
  bool probabilities = false;  ///< (s, s) per head, which selective recomputation does not save
};

/// Returns the bytes of activations on each rank, for N tokens.
inline double activation_bytes(const std::vector<SavedActivation>& saved, std::int64_t tokens,
                               const Divisors& parts) {
  double bytes = 0;
  for (const SavedActivation& each : saved) {
    const std::int64_t divisor = each.divided == Divided::features   ? parts.features
                                 : each.divided == Divided::tokens   ? parts.tokens
                                 : each.divided == Divided::gathered ? parts.gathered
                                                                     : 1;
    bytes += each.bytes * static_cast<double>(tokens) / static_cast<double>(divisor);
  }
  return bytes;
}

/// The activations that one of our blocks saves.
inline std::vector<SavedActivation> block_activations(const GptConfig& config) {
  const double width = static_cast<double>(size_of(config.dtype)), f32 = 4;
  const double wide = width * config.hidden, norm = f32 * config.norm_vectors();
  const double inner = width * config.mlp_inner_width();
  const char* const norm_1 = config.llama ? "ln_1: rstd" : "ln_1: mean, rstd";
  const char* const norm_2 = config.llama ? "ln_2: rstd" : "ln_2: mean, rstd";
  return {
      {"ln_1: x", wide, Divided::tokens},
      {norm_1, norm, Divided::tokens},
      {"qkv: x", wide, Divided::gathered},
      {"attention: q, k, v", width * config.qkv_width(), Divided::features},
      {"attention: y, the projection's x", wide, Divided::features},
      {"attention: log-sum-exps", f32 * config.heads, Divided::features},
      {"ln_2: x", wide, Divided::tokens},
      {norm_2, norm, Divided::tokens},
      {"fc: x", wide, Divided::gathered},
      {config.llama ? "SwiGLU: x" : "GELU: x", inner, Divided::features},
      {"MLP's projection: x", width * config.mlp_width(), Divided::features},
  };
}

/// The activations that the final norm, the head and the loss save, on each of t ranks. The
/// vocabulary may be padded.
inline std::vector<SavedActivation> head_activations(const GptConfig& config, int t) {
  const double width = static_cast<double>(size_of(config.dtype)), f32 = 4;
  return {
      {"ln_f: x", width * config.hidden, Divided::tokens},
      {config.llama ? "ln_f: rstd" : "ln_f: mean, rstd", f32 * config.norm_vectors(),
       Divided::tokens},
      {"lm_head: x", width * config.hidden, Divided::gathered},
      {"loss: logits", width * static_cast<double>(part_of(config.vocabulary, t)),
       Divided::not_at_all},
      {"loss: losses, log-sum-exps", 2 * f32, Divided::not_at_all},
  };
}

}  // namespace lockstep
