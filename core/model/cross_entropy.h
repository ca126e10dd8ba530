#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// Softmax and cross-entropy, averaged over the tokens of the whole batch. The stash keeps the
/// logits (b s V elements) and, per token, the log-sum-exp and the loss (2 b s).
class CrossEntropy : public LossLayer {
 public:
  explicit CrossEntropy(const LayerSite& site) : ops_(site.device, site.layer, site.config.dtype) {}

  void forward(Tensor logits, View targets, float scale, Stash& stash) override;
  double launch_sum(const Stash& stash, View sum) override;
  Tensor backward(Stash& stash) override;

 private:
  struct Saved {
    Tensor logits, losses, lse;
    View targets;
    float scale = 1;
  };

  Ops ops_;
};

}  // namespace lockstep
