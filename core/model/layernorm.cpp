#include "core/model/layernorm.h"

namespace lockstep {

template <class Launch>
Tensor LayerNorm::normalized(Tensor x, Stash& stash, Launch launch) {
  Saved& saved = stash.of<Saved>(this);
  saved.mean = ops_.statistic({x.shape().rows()}, "layernorm statistics");
  saved.rstd = ops_.statistic({x.shape().rows()}, "layernorm statistics");
  Tensor y = ops_.activation(x.shape(), "layernorm output");
  saved.x = std::move(x);
  saved.x.call("layernorm input");
  launch(y, saved);
  return y;
}

Tensor LayerNorm::forward(Tensor x, Stash& stash) {
  return normalized(std::move(x), stash, [&](const Tensor& y, const Saved& saved) {
    ops_.layernorm_forward(saved.x, gain_.value, bias_.value, y, saved.mean, saved.rstd);
  });
}

Tensor LayerNorm::forward_of_sum(View x, Tensor& branch, Stash& stash) {
  if (!ops_.fuses()) return Norm::forward_of_sum(x, branch, stash);
  return normalized(branch.share(), stash, [&](const Tensor& y, const Saved& saved) {
    ops_.add_layernorm_forward(x, saved.x, saved.x, gain_.value, bias_.value, y, saved.mean,
                               saved.rstd);
  });
}

template <class Launch>
Tensor LayerNorm::gradient(Tensor dy, Stash& stash, Launch launch) {
  const Saved& saved = stash.saved<Saved>(this);
  Tensor dx = ops_.activation(dy.shape(), activation_gradients);
  launch(dx, saved);
  if (!gain_.frozen)
    ops_.layernorm_backward_weight(dy, saved.x, saved.mean, saved.rstd, gain_.gradient,
                                   bias_.gradient);
  stash.drop(this);
  return dx;
}

Tensor LayerNorm::backward_input(Tensor dy, Stash& stash) {
  const View up = dy;
  return gradient(std::move(dy), stash, [&](const Tensor& dx, const Saved& saved) {
    ops_.layernorm_backward_input(up, saved.x, gain_.value, saved.mean, saved.rstd, dx);
  });
}

Tensor LayerNorm::backward_input_plus(Tensor dy, View other, Stash& stash) {
  if (!ops_.fuses()) return Norm::backward_input_plus(std::move(dy), other, stash);
  const View up = dy;
  return gradient(std::move(dy), stash, [&](const Tensor& dx, const Saved& saved) {
    ops_.layernorm_backward_input_add(up, saved.x, gain_.value, saved.mean, saved.rstd, other, dx);
  });
}

}  // namespace lockstep
