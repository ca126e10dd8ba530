#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Runs the backward pass of one layer, which takes time, and overwrites `gradient` with the
/// layer's gradient for this rank's samples.
using Backward = std::function<void(int layer, std::span<float> gradient)>;

/// Runs the backward pass of each layer once for one microbatch, from the last layer to layer 0.
/// Layer i has sizes[i] numbers, at least 1. Adds to shards[i] this rank's chunk of the gradient
/// summed over all ranks: chunk(gradient, rank, N). shards[i] has the size of that chunk, which may
/// be 0 if the layer is small.
///
/// Called on every rank, once for each microbatch, with the same shards every time. Each rank sends
/// each layer's gradient through one reduce-scatter. Whole gradients are in memory from
/// world.allocate(). At no time is more of this memory in use than the largest layer needs.
void backward_pass(World& world, const std::vector<int>& sizes, const Backward& backward,
                   std::vector<Buffer>& shards);

}  // namespace lockstep::exercises
