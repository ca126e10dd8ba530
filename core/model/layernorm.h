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

  // A residual connection adds before its LayerNorm, and adds its gradient after it. On a GPU, one
  // kernel does both.

  /// Adds x to `branch` in place, and returns forward() of the sum.
  Tensor forward_of_sum(View x, Tensor& branch, Stash& stash);
  /// Returns backward_input(dy) + other.
  Tensor backward_input_plus(Tensor dy, View other, Stash& stash);

  void collect(std::vector<Parameter*>& parameters) override {
    parameters.insert(parameters.end(), {&gain_, &bias_});
  }

 private:
  struct Saved {
    Tensor x, mean, rstd;
  };

  /// Saves x, and calls launch(y, saved) to compute y.
  template <class Launch>
  Tensor normalized(Tensor x, Stash& stash, Launch launch);
  /// Calls launch(dx, saved) to compute dx, and adds the gradients of gain and bias.
  template <class Launch>
  Tensor gradient(Tensor dy, Stash& stash, Launch launch);

  Ops ops_;
  Parameter gain_, bias_;
};

}  // namespace lockstep
