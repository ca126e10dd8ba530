#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// Layer normalisation over h (Ba 2016). The stash keeps x, mean and rstd: b s h + 2 b s elements.
///
/// The input half also adds the gradients of gain and bias. Both halves read the same x and dy, so
/// deferring these gradients would make a pipeline hold 2 b s h elements in order to compute 2 h
/// numbers.
class LayerNorm : public Layer {
 public:
  LayerNorm(const LayerSite& site, const ParameterSpec& gain, const ParameterSpec& bias)
      : ops_(site.device, site.layer, site.config.dtype),
        gain_(site.parameter(gain)),
        bias_(site.parameter(bias)) {}

  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash&) override {}
  void collect(std::vector<Parameter*>& parameters) override {
    parameters.insert(parameters.end(), {&gain_, &bias_});
  }

 private:
  struct Saved {
    Tensor x, mean, rstd;
  };

  Ops ops_;
  Parameter gain_, bias_;
};

}  // namespace lockstep
