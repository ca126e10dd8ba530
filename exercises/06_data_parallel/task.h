#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Runs the forward and backward pass of one of this rank's microbatches. Overwrites `gradient`
/// with the mean gradient over the microbatch's samples, and returns the number of these samples,
/// at least 1.
using Microbatch = std::function<int(int microbatch, std::span<float> gradient)>;

/// Leaves the mean gradient over all samples of the global batch in every rank's `gradient`. The
/// global batch consists of all microbatches on all ranks. The previous contents of `gradient` do
/// not matter.
///
/// Called on every rank, with the same number of elements and of microbatches; the numbers of
/// samples may differ. Runs each of the microbatches 0 ... microbatches - 1 of this rank once. The
/// gradients of a step are all-reduced once, and so is the number of samples, either together with
/// the gradients or separately. For a gradient of n numbers, that makes n + 1 numbers in all, and
/// no rank sends more messages than two all-reduces do, 4 (N - 1). No collective is empty.
void global_gradient(World& world, int microbatches, const Microbatch& run_microbatch,
                     std::span<float> gradient);

}  // namespace lockstep::exercises
