#pragma once

#include <fmt/format.h>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

struct Sample {
  std::size_t expert = 0;
  std::vector<float> x;  ///< as many numbers as this expert has weights
};

/// One training step of a layer with experts, each of which is a list of weights. The experts
/// differ in size. Every rank has the same weights and its own samples, perhaps none.
///
/// The gradient of an expert's weights is the sum of x over the samples of all ranks that use this
/// expert. (The loss is Σ weights · x.) On return, every rank has subtracted it from the weights.
///
/// A rank computes for 20 µs per sample: `world.compute("E1", 40)` for two samples of expert 1. It
/// sends no more numbers and no more messages than it takes to all-reduce every expert's gradient
/// and one more number per expert: 2 (N - 1) chunks of each. The additional numbers may only serve
/// to find the experts that no rank uses, whose gradients are then left out. No message or
/// collective is empty.
void train_step(World& world, std::vector<std::vector<float>>& experts,
                const std::vector<Sample>& samples);

}  // namespace lockstep::exercises
