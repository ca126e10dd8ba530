#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// The queries (b, s, w), keys and values (b, s, w') in one tensor (b, s, w + 2 w').
struct QueriesKeysValues {
  View q, k, v;
};
inline QueriesKeysValues split_qkv(View qkv, Heads heads) {
  const std::int64_t d = qkv.shape.last() / (heads.queries + 2 * heads.keys);
  const std::int64_t w = heads.queries * d, kv = heads.keys * d;
  return {qkv.columns(0, w), qkv.columns(w, kv), qkv.columns(w + kv, kv)};
}

/// All queries and all keys; a mask selects the pairs that see each other.
inline AttentionBlock all_rows(View q) {
  return {.first_query = 0, .queries = q.shape[1], .first_key = 0, .keys = q.shape[1]};
}

/// Causal attention without parameters, within each document if several are packed into a sequence:
/// maps queries, keys and values, side by side in one tensor (b, s, w + 2 w'), to (b, s, w). Ring
/// attention can replace this layer. The stash keeps the input and the log-sum-exps, b s (w + 2 w')
/// + a b s elements, and shares the output with the output projection, which keeps it as its own
/// input. The (s, s) probabilities are never stored (FlashAttention, Dao 2022).
class AttentionCore : public Layer {
 public:
  /// `heads` are the heads on this rank.
  AttentionCore(const LayerSite& site, Heads heads)
      : ops_(site.device, site.layer, site.config.dtype), heads_(heads) {}

  Tensor forward(Tensor qkv, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash&) override {}

 private:
  struct Saved {
    Tensor qkv, y, lse;
  };

  Ops ops_;
  Heads heads_;
};

/// Multi-head attention (Vaswani 2017): the qkv Linear, in a Llama the rotary positions, the core
/// and the output projection.
class Attention : public Chain {
 public:
  Attention(const LayerSite& site, const ModelBuilder& builder);
};

}  // namespace lockstep
