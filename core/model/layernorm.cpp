#include "core/model/layernorm.h"

namespace lockstep {

Tensor LayerNorm::forward(Tensor x, Stash& stash) {
  Saved& saved = stash.of<Saved>(this);
  saved.mean = ops_.statistic({x.shape().rows()});
  saved.rstd = ops_.statistic({x.shape().rows()});
  Tensor y = ops_.activation(x.shape());
  ops_.layernorm_forward(x, gain_.value, bias_.value, y, saved.mean, saved.rstd);
  saved.x = std::move(x);
  return y;
}

Tensor LayerNorm::backward_input(Tensor dy, Stash& stash) {
  const Saved& saved = stash.saved<Saved>(this);
  Tensor dx = ops_.activation(dy.shape());
  ops_.layernorm_backward_input(dy, saved.x, gain_.value, saved.mean, saved.rstd, dx);
  if (!gain_.frozen)
    ops_.layernorm_backward_weight(dy, saved.x, saved.mean, saved.rstd, gain_.gradient,
                                   bias_.gradient);
  stash.drop(this);
  return dx;
}

}  // namespace lockstep
