#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

struct Settings {
  int microbatches;     ///< that each rank runs in one step
  float loss_scale;     ///< a power of 2
  float max_norm;       ///< a longer gradient is shortened to this length
  float learning_rate;  ///< of SGD
};

/// Runs the forward and backward pass of one of this rank's microbatches with the present weights.
/// The loss is the mean over the microbatch's samples, times `factor`. Adds its gradient to
/// `gradient`. This gradient is computed in 16 bits: what is below 6e-8 would become 0, which is
/// why the factor contains the loss scale.
using Microbatch = std::function<void(int microbatch, float factor, std::span<float> gradient)>;

/// One training step on every rank; its global batch consists of all microbatches of all ranks,
/// each of which has the same number of samples. The gradient g is that of the mean loss over the
/// whole global batch. If its norm |g| is larger than max_norm, it is multiplied by max_norm / |g|.
/// Then each weight is reduced by learning_rate times its gradient. Returns |g|, as it was before
/// it was shortened, on every rank.
///
/// `run_microbatch` is called once for each microbatch 0 ... microbatches - 1, and the n gradients
/// are all-reduced once.
float train_step(World& world, const Settings& settings, const Microbatch& run_microbatch,
                 std::span<float> weights);

}  // namespace lockstep::exercises
