#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// Returns the queries (0), keys (1) or values (2): a third of the columns of qkv (b, s, 3w).
inline View third(View qkv, int which) {
  const std::int64_t width = qkv.shape.last() / 3;
  return qkv.columns(which * width, width);
}

/// Causal attention without parameters: maps queries, keys and values, side by side in one tensor
/// (b, s, 3w), to (b, s, w). Ring attention can replace this layer. The stash keeps the input and
/// the log-sum-exps (3 b s w + a b s elements), and shares the output with the output projection,
/// which keeps it as its own input. The (s, s) probabilities are never stored (FlashAttention, Dao
/// 2022).
class AttentionCore : public Layer {
 public:
  /// `heads` is the number of heads on this rank.
  AttentionCore(const LayerSite& site, int heads)
      : ops_(site.device, site.layer, site.config.dtype), heads_(heads) {}

  Tensor forward(Tensor qkv, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash&) override {}

 private:
  struct Saved {
    Tensor qkv, y, lse;
  };

  Ops ops_;
  int heads_;
};

/// Multi-head attention (Vaswani 2017): the qkv Linear, the core and the output projection.
class Attention : public Chain {
 public:
  Attention(const LayerSite& site, const ModelBuilder& builder);
};

}  // namespace lockstep
