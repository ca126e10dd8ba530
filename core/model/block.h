#pragma once

#include "core/model/layernorm.h"

namespace lockstep {

/// One transformer block, pre-LayerNorm (Radford 2019):
///   x = x + attention(ln_1(x)); y = x + mlp(ln_2(x)).
class Block : public Layer {
 public:
  Block(const LayerSite& site, const ModelBuilder& builder);

  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash& stash) override;
  Tensor backward(Tensor dy, Stash& stash) override;
  void collect(std::vector<Parameter*>& parameters) override;

 private:
  Ops ops_;
  std::unique_ptr<LayerNorm> ln_1_, ln_2_;
  std::unique_ptr<Layer> attention_, mlp_;
};

}  // namespace lockstep
