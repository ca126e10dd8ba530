#include "core/model/attention.h"

namespace lockstep {

Tensor AttentionCore::forward(Tensor qkv, Stash& stash) {
  const std::int64_t b = qkv.shape()[0], s = qkv.shape()[1], width = qkv.shape()[2] / 3;
  Tensor y = ops_.activation({b, s, width}, "attention output");
  Tensor lse = ops_.statistic({b, heads_, s}, "attention log-sum-exps");
  ops_.attention_forward(third(qkv, 0), third(qkv, 1), third(qkv, 2), heads_, y, lse);
  stash.of<Saved>(this) = {std::move(qkv), y.share(), std::move(lse)};
  return y;
}

Tensor AttentionCore::backward_input(Tensor dy, Stash& stash) {
  const Saved& saved = stash.saved<Saved>(this);
  Tensor dqkv = ops_.activation(saved.qkv.shape(), activation_gradients);
  ops_.attention_backward(dy, third(saved.qkv, 0), third(saved.qkv, 1), third(saved.qkv, 2),
                          saved.y, saved.lse, {}, heads_, third(dqkv, 0), third(dqkv, 1),
                          third(dqkv, 2));
  stash.drop(this);
  return dqkv;
}

Attention::Attention(const LayerSite& site, const ModelBuilder& builder) {
  const auto spec = [&](BlockSlot slot) { return block_spec(site.config, site.layer, slot); };
  const int h = site.config.hidden;
  add(builder.linear(site, {.weight = spec(BlockSlot::qkv_weight),
                            .bias = spec(BlockSlot::qkv_bias),
                            .in = h,
                            .out = 3 * h,
                            .split = LinearSplit::column,
                            .output = "qkv"}));
  add(builder.attention_core(site));
  add(builder.linear(site, {.weight = spec(BlockSlot::projection_weight),
                            .bias = spec(BlockSlot::projection_bias),
                            .in = h,
                            .out = h,
                            .split = LinearSplit::row,
                            .output = "attention projection"}));
}

}  // namespace lockstep
