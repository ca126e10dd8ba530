#include "core/model/block.h"

#include "core/model/attention.h"

namespace lockstep {

Block::Block(const LayerSite& site, const ModelBuilder& builder)
    : ops_(site.device, site.layer, site.config.dtype) {
  const auto layernorm = [&](BlockSlot gain, BlockSlot bias) {
    return builder.layernorm(site, block_spec(site.config, site.layer, gain),
                             block_spec(site.config, site.layer, bias));
  };
  ln_1_ = layernorm(BlockSlot::ln_1_weight, BlockSlot::ln_1_bias);
  attention_ = std::make_unique<Attention>(site, builder);
  ln_2_ = layernorm(BlockSlot::ln_2_weight, BlockSlot::ln_2_bias);
  mlp_ = builder.mlp(site);
}

Tensor Block::forward(Tensor x, Stash& stash) {
  Tensor branch = attention_->forward(ln_1_->forward(x.share(), stash), stash);
  Tensor normalized = ln_2_->forward_of_sum(x, branch, stash);
  x = std::move(branch);
  Tensor y = mlp_->forward(std::move(normalized), stash);
  ops_.add(x, y, y);
  return y;
}

// The gradient of x + branch(x) is dy plus the branch's gradient.
Tensor Block::backward(Tensor dy, Stash& stash) {
  dy = ln_2_->backward_input_plus(mlp_->backward(dy.share(), stash), dy, stash);
  return ln_1_->backward_input_plus(attention_->backward(dy.share(), stash), dy, stash);
}

Tensor Block::backward_input(Tensor dy, Stash& stash) {
  dy = ln_2_->backward_input_plus(mlp_->backward_input(dy.share(), stash), dy, stash);
  return ln_1_->backward_input_plus(attention_->backward_input(dy.share(), stash), dy, stash);
}

void Block::backward_weight(Stash& stash) {
  mlp_->backward_weight(stash);
  ln_2_->backward_weight(stash);
  attention_->backward_weight(stash);
  ln_1_->backward_weight(stash);
}

void Block::collect(std::vector<Parameter*>& parameters) {
  for (Layer* layer :
       std::initializer_list<Layer*>{ln_1_.get(), attention_.get(), ln_2_.get(), mlp_.get()})
    layer->collect(parameters);
}

}  // namespace lockstep
