#include "core/model/rmsnorm.h"

#include <utility>

namespace lockstep {

Tensor RmsNorm::forward(Tensor x, Stash& stash) {
  Saved& saved = stash.of<Saved>(this);
  saved.rstd = ops_.statistic({x.shape().rows()}, "RMSNorm statistics");
  Tensor y = ops_.activation(x.shape(), "RMSNorm output");
  saved.x = std::move(x);
  saved.x.call("RMSNorm input");
  ops_.rmsnorm_forward(saved.x, gain_.value, epsilon_, y, saved.rstd);
  return y;
}

Tensor RmsNorm::backward_input(Tensor dy, Stash& stash) {
  const Saved& saved = stash.saved<Saved>(this);
  Tensor dx = ops_.activation(dy.shape(), activation_gradients);
  ops_.rmsnorm_backward_input(dy, saved.x, gain_.value, saved.rstd, dx);
  if (!gain_.frozen) ops_.rmsnorm_backward_weight(dy, saved.x, saved.rstd, gain_.gradient);
  stash.drop(this);
  return dx;
}

}  // namespace lockstep
