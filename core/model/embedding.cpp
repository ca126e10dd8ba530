#include "core/model/embedding.h"

namespace lockstep {

Embedding::Embedding(const LayerSite& site)
    : ops_(site.device, site.layer, site.config.dtype),
      tokens_(site.parameter(token_table_spec(site.config))),
      positions_(site.parameter(position_table_spec(site.config))) {}

Tensor Embedding::forward(View tokens, Stash& stash) {
  Tensor x = ops_.activation({tokens.shape[0], tokens.shape[1], tokens_.shape[1]});
  ops_.embedding_forward(tokens, tokens_.value, positions_.value, x);
  stash.of<Saved>(this).tokens = tokens;
  return x;
}

void Embedding::backward_input(Tensor dx, Stash& stash) {
  stash.saved<Saved>(this).dx = std::move(dx);
}

void Embedding::backward_weight(Stash& stash) {
  const Saved& saved = stash.saved<Saved>(this);
  if (!tokens_.frozen)
    ops_.embedding_backward(saved.tokens, saved.dx, tokens_.gradient, positions_.gradient);
  stash.drop(this);
}

}  // namespace lockstep
