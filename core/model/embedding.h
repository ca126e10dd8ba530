#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// x (b, s, h) = token_table[tokens] + position_table[0 .. s). The stash keeps the View of the
/// tokens and, between the two halves of the backward pass, also dx.
class Embedding : public TokenLayer {
 public:
  explicit Embedding(const LayerSite& site);

  Tensor forward(View tokens, Stash& stash) override;
  void backward_input(Tensor dx, Stash& stash) override;
  void backward_weight(Stash& stash) override;
  void collect(std::vector<Parameter*>& parameters) override {
    parameters.insert(parameters.end(), {&tokens_, &positions_});
  }
  Parameter& table() override { return tokens_; }

 private:
  struct Saved {
    View tokens;
    Tensor dx;
  };

  Ops ops_;
  Parameter tokens_, positions_;
};

}  // namespace lockstep
