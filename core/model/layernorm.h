#pragma once

#include "core/model/builder.h"
#include "core/model/norm.h"

namespace lockstep {

/// Layer normalisation over h (Ba 2016). The stash keeps x, mean and rstd: b s h + 2 b s elements.
///
/// The input half also adds the gradients of gain and bias. Both halves read the same x and dy, so
/// deferring these gradients would make a pipeline hold 2 b s h elements in order to compute 2 h
/// numbers.
class LayerNorm : public Norm {
 public:
  LayerNorm(const LayerSite& site, const ParameterSpec& gain, const ParameterSpec& bias)
      : Norm(site.device, site.layer, site.config.dtype),
        gain_(site.parameter(gain)),
        bias_(site.parameter(bias)) {}

  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash&) override {}

  /// On a GPU, one kernel adds and normalizes.
  Tensor forward_of_sum(View x, Tensor& branch, Stash& stash) override;
  Tensor backward_input_plus(Tensor dy, View other, Stash& stash) override;

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

  Parameter gain_, bias_;
};

}  // namespace lockstep
