#pragma once

#include <fmt/format.h>

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// One training step of a pipeline, on the stage of this rank: rank s of p = world.size() runs
/// stage s. Returns the gradient of this stage's weight.
///
/// A stage multiplies each of the n = `size` numbers of a microbatch by its weight: y = weight · x.
/// On the first stage, x is the microbatch's part of `batch`, which has m · n numbers, microbatch 0
/// first; on the other stages, `batch` is empty. The last stage's loss is ½ Σ y², so dy = y there.
/// Each stage adds Σ x · dy to its gradient, and passes dx = weight · dy on to the previous stage.
///
/// Each forward pass computes for 100 µs, `world.compute("F0", 100)` for microbatch 0, and each
/// backward pass for 200 µs, `world.compute("B0", 200)`. A stage sends one message of n numbers for
/// each pass whose result another stage needs, and no others. On the modelled clock, the step may
/// take (m + p - 1) · 300 µs plus 2 (m + p) messages of n numbers, each of which takes
/// 1 µs + n · 4 ns. At any time, at most min(m, p - s) microbatches may be between their forward
/// pass on stage s and the end of their backward pass there. In addition to the Buffers of these
/// microbatches, the stage may hold at most 3 Buffers of n numbers.
float train_step(World& world, float weight, std::span<const float> batch, int microbatches,
                 std::size_t size);

}  // namespace lockstep::exercises
