#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Runs the backward pass of one layer, which takes time, and writes the layer's gradient for this
/// rank's samples to `gradient`.
using Backward = std::function<void(int layer, std::span<float> gradient)>;

/// Runs the backward pass of each layer once, from the last layer to layer 0, and leaves the sum of
/// all ranks' gradients in every rank's `gradients`. Layer i has sizes[i] numbers (perhaps none);
/// in `gradients`, the layers follow one another, layer 0 first.
///
/// The layers' gradients are collected in buckets, in the order of the backward pass. A bucket is
/// full when it has at least `bucket` numbers (at least 1); the last bucket may have fewer. Each
/// bucket that is not empty gets one all-reduce. It starts as soon as the bucket is full, or, for
/// the last bucket, after layer 0. It can't start earlier: the bucket's gradients are not complete
/// until then. The rank waits for the all-reduces only after the whole backward pass.
void backward_pass(World& world, const std::vector<int>& sizes, int bucket,
                   const Backward& backward, std::span<float> gradients);

}  // namespace lockstep::exercises
