#include "core/model/linear.h"

namespace lockstep {

Linear::Linear(const LayerSite& site, const LinearSpec& spec)
    : ops_(site.device, site.layer, site.config.dtype),
      in_(spec.in),
      out_(spec.out),
      output_(spec.output),
      adds_bias_(spec.adds_bias),
      layout_(spec.layout),
      aligned_(spec.aligned),
      tied_(spec.tied),
      tied_gradient_(spec.tied_gradient) {
  if (tied_ == nullptr) weight_ = site.parameter(spec.weight);
  if (spec.bias.shape.rank() > 0) bias_ = site.parameter(spec.bias);
}

Tensor Linear::forward(Tensor x, Stash& stash) {
  const Shape shape{x.shape()[0], x.shape()[1], out_};
  Tensor y = aligned_ ? ops_.aligned_activation(shape, output_) : ops_.activation(shape, output_);
  ops_.linear_forward(x, weight(), adds_bias_ ? bias_.value : View{}, y, layout_);
  stash.of<Saved>(this).x = std::move(x);
  return y;
}

Tensor Linear::backward_input(Tensor dy, Stash& stash) {
  Tensor dx = ops_.activation({dy.shape()[0], dy.shape()[1], in_}, activation_gradients);
  ops_.linear_backward_input(dy, weight(), dx, layout_);
  stash.saved<Saved>(this).dy = std::move(dy);
  return dx;
}

void Linear::backward_weight(Stash& stash) {
  const Saved& saved = stash.saved<Saved>(this);
  if (!frozen())
    ops_.linear_backward_weight(saved.x, saved.dy, weight_gradient(), bias_.gradient, layout_);
  stash.drop(this);
}

void Linear::collect(std::vector<Parameter*>& parameters) {
  parameters.push_back(tied_ != nullptr ? tied_ : &weight_);
  if (bias_.shape.rank() > 0) parameters.push_back(&bias_);
}

}  // namespace lockstep
