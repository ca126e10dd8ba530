#include "core/model/attention.h"

#include "core/model/rotary.h"

namespace lockstep {

Tensor AttentionCore::forward(Tensor qkv, Stash& stash) {
  const auto [q, k, v] = split_qkv(qkv, heads_);
  Tensor y = ops_.activation(q.shape, "attention output");
  Tensor lse = ops_.statistic({q.shape[0], heads_.queries, q.shape[1]}, "attention log-sum-exps");
  if (const DocumentMasks* masks = stash.microbatch().masks)
    ops_.attention_block_forward(q, k, v, heads_.queries, all_rows(q), y, lse, masks->whole.visible,
                                 masks->whole.pairs);
  else
    ops_.attention_forward(q, k, v, heads_.queries, y, lse);
  stash.of<Saved>(this) = {std::move(qkv), y.share(), std::move(lse)};
  return y;
}

Tensor AttentionCore::backward_input(Tensor dy, Stash& stash) {
  const Saved& saved = stash.saved<Saved>(this);
  Tensor dqkv = ops_.activation(saved.qkv.shape(), activation_gradients);
  const auto [q, k, v] = split_qkv(saved.qkv, heads_);
  const auto [dq, dk, dv] = split_qkv(dqkv, heads_);
  if (const DocumentMasks* masks = stash.microbatch().masks) {
    ops_.fill(dqkv, 0);
    ops_.attention_block_backward(dy, q, k, v, saved.y, saved.lse, heads_.queries, all_rows(q), dq,
                                  dk, dv, masks->whole.visible, masks->whole.pairs);
  } else {
    ops_.attention_backward(dy, q, k, v, saved.y, saved.lse, {}, heads_.queries, dq, dk, dv);
  }
  stash.drop(this);
  return dqkv;
}

Attention::Attention(const LayerSite& site, const ModelBuilder& builder) {
  const auto spec = [&](BlockSlot slot) { return block_spec(site.config, site.layer, slot); };
  const int h = site.config.hidden;
  add(builder.linear(site, {.weight = spec(BlockSlot::qkv_weight),
                            .bias = spec(BlockSlot::qkv_bias),
                            .in = h,
                            .out = site.config.qkv_width(),
                            .layout = weight_layout(site.config),
                            .split = LinearSplit::column,
                            .output = "qkv"}));
  if (site.config.llama) add(std::make_unique<Rotary>(site, builder.heads(site)));
  add(builder.attention_core(site));
  add(builder.linear(site, {.weight = spec(BlockSlot::projection_weight),
                            .bias = spec(BlockSlot::projection_bias),
                            .in = h,
                            .out = h,
                            .layout = weight_layout(site.config),
                            .split = LinearSplit::row,
                            .output = "attention projection"}));
}

}  // namespace lockstep
