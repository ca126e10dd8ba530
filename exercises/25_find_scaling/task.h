#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

struct Settings {
  int microbatches;     ///< per rank and step
  float loss_scale;     ///< a power of 2
  float max_norm;       ///< a longer gradient is shortened to this length
  float learning_rate;  ///< of SGD
};

/// Runs the forward and backward pass of one of this rank's microbatches with the current weights.
/// The loss is the mean over the microbatch's samples, times `factor`. Adds its gradient to
/// `gradient`. This gradient is computed in 16 bits: without the loss scale, which the factor
/// contains, numbers below 6e-8 would become 0.
using Microbatch = std::function<void(int microbatch, float factor, std::span<float> gradient)>;

/// One training step on every rank. The global batch consists of all microbatches of all ranks, and
/// all microbatches have the same number of samples. The gradient g is that of the mean loss over
/// the whole global batch. If its norm |g| is larger than max_norm, it is multiplied by max_norm /
/// |g|. Then each weight is reduced by learning_rate times its gradient. Returns the norm |g| from
/// before this multiplication, on every rank.
///
/// `run_microbatch` is called once for each microbatch 0 ... microbatches - 1, and the n gradients
/// are all-reduced once. The ranks send nothing else, with one exception: if a rank has only a part
/// of the sum, after a reduce-scatter, they may all-reduce one number for the norm. No message or
/// collective is empty.
float train_step(World& world, const Settings& settings, const Microbatch& run_microbatch,
                 std::span<float> weights);

}  // namespace lockstep::exercises
