#pragma once

#include "core/model/layer.h"
#include "core/model/ops.h"

namespace lockstep {

/// A normalisation of each token's row: LayerNorm or RMSNorm.
class Norm : public Layer {
 public:
  Norm(Device device, int layer, DType dtype) : ops_(device, layer, dtype) {}

  // A residual connection adds before its norm, and adds its gradient after it. A norm may do both
  // in one kernel.

  /// Adds x to `branch` in place, and returns forward() of the sum.
  virtual Tensor forward_of_sum(View x, Tensor& branch, Stash& stash) {
    ops_.add(x, branch, branch);
    return forward(branch.share(), stash);
  }
  /// Returns backward_input(dy) + other.
  virtual Tensor backward_input_plus(Tensor dy, View other, Stash& stash) {
    Tensor dx = backward_input(std::move(dy), stash);
    ops_.add(other, dx, dx);
    return dx;
  }

 protected:
  Ops ops_;
};

}  // namespace lockstep
