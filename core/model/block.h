#pragma once

#include "core/model/builder.h"
#include "core/model/norm.h"

namespace lockstep {

/// One transformer block, which normalizes before each part (Radford 2019):
///   x = x + attention(norm_1(x)); y = x + mlp(norm_2(x)).
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
  std::unique_ptr<Norm> norm_1_, norm_2_;
  std::unique_ptr<Layer> attention_, mlp_;
};

}  // namespace lockstep
