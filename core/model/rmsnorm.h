#pragma once

#include "core/model/builder.h"
#include "core/model/norm.h"

namespace lockstep {

/// Root-mean-square normalisation over h (Zhang & Sennrich 2019), without a bias. The stash keeps x
/// and rstd: b s h + b s elements. As in LayerNorm, the input half also adds the gradient of the
/// gain.
class RmsNorm : public Norm {
 public:
  RmsNorm(const LayerSite& site, const ParameterSpec& gain)
      : Norm(site.device, site.layer, site.config.dtype),
        epsilon_(static_cast<float>(site.config.llama->epsilon)),
        gain_(site.parameter(gain)) {}

  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash&) override {}

  void collect(std::vector<Parameter*>& parameters) override { parameters.push_back(&gain_); }

 private:
  struct Saved {
    Tensor x, rstd;
  };

  float epsilon_;
  Parameter gain_;
};

}  // namespace lockstep
