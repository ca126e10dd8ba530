#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// Elementwise GELU, in its tanh form. The stash keeps x. In the backward pass, dx overwrites dy.
class Gelu : public Layer {
 public:
  explicit Gelu(const LayerSite& site) : ops_(site.device, site.layer, site.config.dtype) {}

  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash&) override {}

 private:
  struct Saved {
    Tensor x;
  };

  Ops ops_;
};

/// h -> 4h -> GELU -> h, for each token independently. A mixture of experts can replace it.
class Mlp : public Chain {
 public:
  Mlp(const LayerSite& site, const ModelBuilder& builder);
};

}  // namespace lockstep
