#include "core/model/embedding.h"

#include <utility>

namespace lockstep {

Embedding::Embedding(const LayerSite& site, std::vector<Positions> positions)
    : ops_(site.device, site.layer, site.config.dtype),
      tokens_(site.parameter(token_table_spec(site.config))),
      positions_(site, std::move(positions)) {}

Tensor Embedding::forward(View tokens, Stash& stash) {
  Tensor x =
      ops_.activation({tokens.shape[0], tokens.shape[1], tokens_.shape[1]}, "embedding output");
  positions_.with_values(
      [&](View rows) { ops_.embedding_forward(tokens, tokens_.value, rows, x); });
  stash.of<Saved>(this).tokens = tokens;
  return x;
}

void Embedding::backward_input(Tensor dx, Stash& stash) {
  stash.saved<Saved>(this).dx = std::move(dx);
}

void Embedding::backward_weight(Stash& stash) {
  const Saved& saved = stash.saved<Saved>(this);
  if (!tokens_.frozen)
    positions_.with_gradients([&](View rows) {
      ops_.embedding_backward(saved.tokens, saved.dx, tokens_.gradient, rows);
    });
  stash.drop(this);
}

}  // namespace lockstep
