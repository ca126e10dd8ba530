#pragma once

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Given: updates the parameters, their momentum and their variance in place. Elementwise: all four
/// spans have the same size.
void adamw(std::span<float> parameters, std::span<const float> gradients, std::span<float> momentum,
           std::span<float> variance);

/// The states that each of N ranks keeps for a model of n parameters. P is the smallest multiple of
/// N that is at least n. The last P - n numbers of parameters and gradients are padding, which
/// stays 0.
struct ModelStates {
  Buffer parameters;  ///< P numbers: all parameters
  Buffer gradients;   ///< P numbers: the gradient of this rank's samples
  Buffer momentum;    ///< P / N numbers, for this rank's shard: chunk(parameters, rank, N)
  Buffer variance;    ///< likewise
};

/// Returns states of these sizes, all 0. Use world.allocate(), so that the memory is counted.
ModelStates allocate_states(World& world, std::size_t n);

/// Called on every rank after its backward pass, when all ranks have the same parameters. The sum
/// of all ranks' gradients is the gradient of the global batch. On return, every rank has all
/// parameters, updated by one step of AdamW with that gradient; `gradients` may contain anything,
/// except in the padding.
///
/// A rank updates only its own shard, with adamw(). Each rank sends 2 (N - 1)/N · P numbers, in at
/// most 2 (N - 1) messages. No memory is needed beyond the states that allocate_states() returns:
/// at any time, a rank holds no other Buffers, and elsewhere at most one more shard.
void step(World& world, ModelStates& states);

}  // namespace lockstep::exercises
