#include "core/model/block.h"

#include "core/model/attention.h"

namespace lockstep {

Tensor Residual::forward(Tensor x, Stash& stash) {
  Tensor y = branch_->forward(x.share(), stash);
  ops_.add(x, y, y);
  return y;
}

Tensor Residual::backward_input(Tensor dy, Stash& stash) {
  Tensor dx = branch_->backward_input(dy.share(), stash);
  ops_.add(dy, dx, dx);
  return dx;
}

Tensor Residual::backward(Tensor dy, Stash& stash) {
  Tensor dx = branch_->backward(dy.share(), stash);
  ops_.add(dy, dx, dx);
  return dx;
}

Block::Block(const LayerSite& site, const ModelBuilder& builder) {
  const auto spec = [&](BlockSlot slot) { return block_spec(site.config, site.layer, slot); };

  auto attention = std::make_unique<Chain>();
  attention->add(builder.layernorm(site, spec(BlockSlot::ln_1_weight), spec(BlockSlot::ln_1_bias)));
  attention->add(std::make_unique<Attention>(site, builder));
  add(std::make_unique<Residual>(site, std::move(attention)));

  auto mlp = std::make_unique<Chain>();
  mlp->add(builder.layernorm(site, spec(BlockSlot::ln_2_weight), spec(BlockSlot::ln_2_bias)));
  mlp->add(builder.mlp(site));
  add(std::make_unique<Residual>(site, std::move(mlp)));
}

}  // namespace lockstep
