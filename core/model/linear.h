#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// y (b, s, out) = x (b, s, in) W + b. The stash keeps x (b s · in elements) until the weight half,
/// and, between the two halves of the backward pass, also dy (b s · out elements).
class Linear : public Layer {
 public:
  Linear(const LayerSite& site, const LinearSpec& spec);

  Tensor forward(Tensor x, Stash& stash) override;
  Tensor backward_input(Tensor dy, Stash& stash) override;
  void backward_weight(Stash& stash) override;
  void collect(std::vector<Parameter*>& parameters) override;

  /// Releases the saved x. Restore an equal x with restore_input() before the weight half.
  void release_input(Stash& stash) { stash.saved<Saved>(this).x.reset(); }
  void restore_input(Tensor x, Stash& stash) { stash.saved<Saved>(this).x = std::move(x); }

 private:
  struct Saved {
    Tensor x;
    Tensor dy;
  };
  bool frozen() const { return tied_ != nullptr ? tied_->frozen : weight_.frozen; }
  View weight() const { return tied_ != nullptr ? tied_->value : weight_.value; }
  View weight_gradient() const { return tied_ != nullptr ? tied_gradient_ : weight_.gradient; }

  Ops ops_;
  int in_, out_;
  const char* output_;
  bool adds_bias_;
  WeightLayout layout_;
  bool aligned_;
  Parameter weight_, bias_;
  Parameter* tied_;
  View tied_gradient_;
};

}  // namespace lockstep
