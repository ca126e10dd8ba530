#include "core/model/mlp.h"

namespace lockstep {

Tensor Gelu::forward(Tensor x, Stash& stash) {
  Tensor y = ops_.activation(x.shape(), "GELU output");
  ops_.gelu_forward(x, y);
  stash.of<Saved>(this).x = std::move(x);
  return y;
}

Tensor Gelu::backward_input(Tensor dy, Stash& stash) {
  Tensor dx = dy.sole() ? dy.share() : ops_.activation(dy.shape(), activation_gradients);
  ops_.gelu_backward(stash.saved<Saved>(this).x, dy, dx);
  stash.drop(this);
  return dx;
}

Mlp::Mlp(const LayerSite& site, const ModelBuilder& builder) {
  const auto spec = [&](BlockSlot slot) { return block_spec(site.config, site.layer, slot); };
  const int h = site.config.hidden;
  add(builder.linear(site, {.weight = spec(BlockSlot::fc_weight),
                            .bias = spec(BlockSlot::fc_bias),
                            .in = h,
                            .out = 4 * h,
                            .split = LinearSplit::column,
                            .output = "GELU input"}));
  add(std::make_unique<Gelu>(site));
  add(builder.linear(site, {.weight = spec(BlockSlot::mlp_projection_weight),
                            .bias = spec(BlockSlot::mlp_projection_bias),
                            .in = 4 * h,
                            .out = h,
                            .split = LinearSplit::row,
                            .output = "MLP output"}));
}

}  // namespace lockstep
