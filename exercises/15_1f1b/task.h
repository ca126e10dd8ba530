#pragma once

#include "core/pipeline/schedule.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Returns the actions of stage `stage` in one step, in order. The pipeline has
/// p = `stages` stages. The actions are, for each of m microbatches, 0 to m - 1, its forward pass,
/// Action{Op::forward, stage, microbatch}, and later its backward pass, Action{Op::backward, stage,
/// microbatch}. Each stage is on a rank of its own.
///
/// A forward pass waits for that of the previous stage, and a backward pass for that of the next
/// stage. (On the last stage, a microbatch's backward pass needs only its own forward pass.) All
/// passes of one kind take equally long. The step must be as short as with GPipe, which runs all
/// forward passes before the first backward pass. But stage s may hold the activations of at most
/// min(m, p - s) microbatches at a time, while GPipe's stages hold those of all m. A stage holds a
/// microbatch from its forward pass to the end of its backward pass.
std::vector<Action> one_f_one_b(int stage, int stages, int microbatches);

}  // namespace lockstep::exercises
