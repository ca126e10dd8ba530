#pragma once

namespace lockstep {

/// The hyperparameters of AdamW.
struct AdamWOptions {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  /// Llama 2's value; PyTorch's default is 1e-8. Epsilon limits the effect of noise: with 1e-8, a
  /// gradient that is zero except for rounding errors (such as that of the key biases) would cause
  /// full steps.
  float epsilon = 1e-5F;
  float weight_decay = 0.1F;  ///< applied to matrices only (Parameter::decay)
  float clip = 1.0F;          ///< maximum gradient norm; 0 disables clipping
  bool masters = true;  ///< keep f32 copies of 16-bit weights; otherwise small updates are lost

  bool operator==(const AdamWOptions&) const = default;
};

}  // namespace lockstep
