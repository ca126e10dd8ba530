#include "core/model/block.h"

#include "core/model/attention.h"

namespace lockstep {

Block::Block(const LayerSite& site, const ModelBuilder& builder)
    : ops_(site.device, site.layer, site.config.dtype) {
  const auto norm = [&](BlockSlot gain, BlockSlot bias) {
    return builder.norm(site, block_spec(site.config, site.layer, gain),
                        block_spec(site.config, site.layer, bias));
  };
  norm_1_ = norm(BlockSlot::ln_1_weight, BlockSlot::ln_1_bias);
  attention_ = std::make_unique<Attention>(site, builder);
  norm_2_ = norm(BlockSlot::ln_2_weight, BlockSlot::ln_2_bias);
  mlp_ = builder.mlp(site);
}

Tensor Block::forward(Tensor x, Stash& stash) {
  Tensor branch = attention_->forward(norm_1_->forward(x.share(), stash), stash);
  Tensor normalized = norm_2_->forward_of_sum(x, branch, stash);
  x = std::move(branch);
  Tensor y = mlp_->forward(std::move(normalized), stash);
  ops_.add(x, y, y);
  return y;
}

// The gradient of x + branch(x) is dy plus the branch's gradient.
Tensor Block::backward(Tensor dy, Stash& stash) {
  dy = norm_2_->backward_input_plus(mlp_->backward(dy.share(), stash), dy, stash);
  return norm_1_->backward_input_plus(attention_->backward(dy.share(), stash), dy, stash);
}

Tensor Block::backward_input(Tensor dy, Stash& stash) {
  dy = norm_2_->backward_input_plus(mlp_->backward_input(dy.share(), stash), dy, stash);
  return norm_1_->backward_input_plus(attention_->backward_input(dy.share(), stash), dy, stash);
}

void Block::backward_weight(Stash& stash) {
  mlp_->backward_weight(stash);
  norm_2_->backward_weight(stash);
  attention_->backward_weight(stash);
  norm_1_->backward_weight(stash);
}

void Block::collect(std::vector<Parameter*>& parameters) {
  for (Layer* layer :
       std::initializer_list<Layer*>{norm_1_.get(), attention_.get(), norm_2_.get(), mlp_.get()})
    layer->collect(parameters);
}

}  // namespace lockstep
