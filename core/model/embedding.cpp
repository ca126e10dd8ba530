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
  positions_.with_values([&](View rows) {
    if (rows.shape.rank() > 0)
      ops_.embedding_forward(tokens, tokens_.value, rows, x);
    else
      ops_.embedding_part_forward(tokens, all_tokens(), tokens_.value, {}, x);
  });
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
      if (rows.shape.rank() > 0)
        ops_.embedding_backward(saved.tokens, saved.dx, tokens_.gradient, rows);
      else
        ops_.embedding_part_backward(saved.tokens, all_tokens(), saved.dx, tokens_.gradient, {});
    });
  stash.drop(this);
}

}  // namespace lockstep
