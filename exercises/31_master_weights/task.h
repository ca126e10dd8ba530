#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// A number in f16. The largest is 65504; between 1 and 2, neighbours are 1/1024 apart.
struct Half {
  std::uint16_t bits = 0;
};
/// Given: rounds to the nearest f16, ties to even; a number that is too large becomes infinity.
Half to_half(float number);
/// Given: the same number in f32, exactly. Infinities and NaN remain what they are.
float to_float(Half number);

/// What one rank keeps of its parameters.
struct Mixed {
  std::vector<Half> weights;   ///< used by the forward and backward passes
  std::vector<float> masters;  ///< the same parameters in f32, for the optimizer
  float scale = 1;             ///< the next step's factor on the loss: a power of two
  int good_steps = 0;          ///< in a row, since the last change of the scale or skipped step
};

/// The optimizer: updates parameters with their gradients, and keeps its other states. Both spans
/// contain all of the rank's parameters.
using Update = std::function<void(std::span<float> parameters, std::span<const float> gradients)>;

/// Returns the state before the first step. The masters are the initial parameters themselves, and
/// the weights are the masters, rounded.
Mixed begin(std::span<const float> initial, float scale);

/// One step of the optimizer. `gradients` are those of this rank's weights, multiplied by
/// `state.scale` like the loss. Some may be infinite or NaN: an overflow.
///
/// Called on every rank. Ranks have different parameters, for example shards or the stages of a
/// pipeline, and different numbers of them, possibly 0. All have the same scale.
///
/// If there is an overflow on any rank, all ranks skip the step: weights, masters and optimizer
/// remain as they are (`update` is not called), the scale is halved, and step() returns false. The
/// scale has no bounds: after enough overflows, it is below 1.
/// Otherwise, all ranks call `update` once, with the masters and unscaled gradients; the weights
/// are the new masters, rounded; and step() returns true. After `growth_interval` good steps in a
/// row, at least 1, the scale is doubled and the count starts again at 0.
///
/// In a step, all N ranks together send at most N (N - 1) numbers: each rank sends one number to
/// each other rank. No rank sends more messages than one all-reduce takes, 2 (N - 1), and no
/// message or collective is empty.
bool step(World& world, Mixed& state, std::span<const Half> gradients, int growth_interval,
          const Update& update);

}  // namespace lockstep::exercises
