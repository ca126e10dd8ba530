#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// y = x + branch(x). Residual itself stashes nothing, because its backward pass needs only dy.
class Residual : public Layer {
 public:
  Residual(const LayerSite& site, std::unique_ptr<Layer> branch)
      : ops_(site.device, site.layer, site.config.dtype), branch_(std::move(branch)) {}

  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash& stash) override { branch_->backward_weight(stash); }
  Tensor backward(Tensor dy, Stash& stash) override;
  void collect(std::vector<Parameter*>& parameters) override { branch_->collect(parameters); }

 private:
  Ops ops_;
  std::unique_ptr<Layer> branch_;
};

/// One transformer block, pre-LayerNorm (Radford 2019):
///   x = x + attention(ln_1(x)); y = x + mlp(ln_2(x)).
class Block : public Chain {
 public:
  Block(const LayerSite& site, const ModelBuilder& builder);
};

}  // namespace lockstep
