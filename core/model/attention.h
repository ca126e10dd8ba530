#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// Causal attention proper, (b, s, 3w) queries, keys and values side by side -> (b, s, w), without
/// parameters. A seam: ring attention takes its place. The stash keeps the input, the output
/// (shared with the projection after it, which keeps it as its own input) and the log-sum-exps: 3 b
/// s w, and a b s floats; the (s, s) probabilities are never stored (FlashAttention, Dao 2022).
class AttentionCore : public Layer {
 public:
  /// `heads`: how many of the heads are here.
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

/// Multi-head attention (Vaswani 2017): qkv Linear, core, projection.
class Attention : public Chain {
 public:
  Attention(const LayerSite& site, const ModelBuilder& builder);
};

}  // namespace lockstep
