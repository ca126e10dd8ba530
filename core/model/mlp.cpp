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

Tensor SwiGlu::forward(Tensor x, Stash& stash) {
  const Shape& in = x.shape();
  Tensor y = ops_.activation({in[0], in[1], in[2] / 2}, "SwiGLU output");
  ops_.swiglu_forward(x, y);
  stash.of<Saved>(this).x = std::move(x);
  return y;
}

Tensor SwiGlu::backward_input(Tensor dy, Stash& stash) {
  Tensor x = std::move(stash.saved<Saved>(this).x);
  stash.drop(this);
  Tensor dx = x.sole() ? x.share() : ops_.activation(x.shape(), activation_gradients);
  ops_.swiglu_backward(x, dy, dx);
  dx.call(activation_gradients);
  return dx;
}

Mlp::Mlp(const LayerSite& site, const ModelBuilder& builder) {
  const auto spec = [&](BlockSlot slot) { return block_spec(site.config, site.layer, slot); };
  const GptConfig& config = site.config;
  const int h = config.hidden;
  add(builder.linear(site, {.weight = spec(BlockSlot::fc_weight),
                            .bias = spec(BlockSlot::fc_bias),
                            .in = h,
                            .out = config.mlp_inner_width(),
                            .layout = weight_layout(config),
                            .split = LinearSplit::column,
                            .output = config.llama ? "SwiGLU input" : "GELU input"}));
  config.llama ? add(std::make_unique<SwiGlu>(site)) : add(std::make_unique<Gelu>(site));
  add(builder.linear(site, {.weight = spec(BlockSlot::mlp_projection_weight),
                            .bias = spec(BlockSlot::mlp_projection_bias),
                            .in = config.mlp_width(),
                            .out = h,
                            .layout = weight_layout(config),
                            .split = LinearSplit::row,
                            .output = "MLP output"}));
}

}  // namespace lockstep
