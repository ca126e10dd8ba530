#pragma once

#include "core/model/builder.h"
#include "core/model/ops.h"
#include "core/model/position_table.h"

namespace lockstep {

/// x (b, c, h) = token_table[tokens], to which a GPT-2 adds the position table's rows for these c
/// positions; by default, they are all s of the sequence. The stash keeps the View of the tokens
/// and, between the two halves of the backward pass, also dx.
class Embedding : public TokenLayer {
 public:
  /// `positions` are the tokens' positions in each sequence; empty means all.
  explicit Embedding(const LayerSite& site, std::vector<Positions> positions = {});

  Tensor forward(View tokens, Stash& stash) override;
  void backward_input(Tensor dx, Stash& stash) override;
  void backward_weight(Stash& stash) override;
  void collect(std::vector<Parameter*>& parameters) override {
    parameters.push_back(&tokens_);
    positions_.collect(parameters);
  }
  Parameter& table() override { return tokens_; }

 private:
  struct Saved {
    View tokens;
    Tensor dx;
  };

  VocabularyPart all_tokens() const { return {0, tokens_.shape[0]}; }

  Ops ops_;
  Parameter tokens_;
  PositionTable positions_;
};

}  // namespace lockstep
