#pragma once

namespace lockstep {

struct AdamWOptions {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  /// Llama 2's, where PyTorch's default is 1e-8. It bounds what noise can do: a gradient that is
  /// zero but for rounding (that of the keys' biases is) would be scaled up to full steps by 1e-8.
  float epsilon = 1e-5F;
  float weight_decay = 0.1F;  ///< of matrices only (Parameter::decay)
  float clip = 1.0F;          ///< the largest gradient norm; 0 for no clipping
  bool masters = true;        ///< f32 copies of narrow values; without them small steps are lost

  bool operator==(const AdamWOptions&) const = default;
};

}  // namespace lockstep
