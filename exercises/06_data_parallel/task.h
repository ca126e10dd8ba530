#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Runs the forward and backward pass of one of this rank's microbatches. Overwrites `gradient`
/// with the mean gradient over the microbatch's samples, and returns how many samples it has: at
/// least 1.
using Microbatch = std::function<int(int microbatch, std::span<float> gradient)>;

/// Leaves the mean gradient over all samples of the global batch, those of all microbatches on all
/// ranks, in every rank's `gradient`. What `gradient` contained before does not matter.
///
/// Called on every rank, with the same number of elements and of microbatches; the numbers of
/// samples may differ. Runs each of the microbatches 0 ... microbatches - 1 of this rank once. The
/// gradients of a step are all-reduced once. So is the number of samples, which may be sent with
/// the gradients or on its own: n + 1 numbers in all, for a gradient of n.
void global_gradient(World& world, int microbatches, const Microbatch& run_microbatch,
                     std::span<float> gradient);

}  // namespace lockstep::exercises
