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

/// SwiGLU (Shazeer 2020): maps (b, s, 2f), the gate and a factor side by side, to silu(gate) *
/// factor, (b, s, f), with silu(z) = z / (1 + e^-z). The stash keeps x. In the backward pass, dx
/// overwrites x.
class SwiGlu : public Layer {
 public:
  explicit SwiGlu(const LayerSite& site) : ops_(site.device, site.layer, site.config.dtype) {}

  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash&) override {}

 private:
  struct Saved {
    Tensor x;
  };

  Ops ops_;
};

/// For each token independently, h -> 4h -> GELU -> h or, in a Llama, h -> 2f -> SwiGLU -> f -> h.
/// A mixture of experts can replace it.
class Mlp : public Chain {
 public:
  Mlp(const LayerSite& site, const ModelBuilder& builder);
};

}  // namespace lockstep
