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
/// stage. (On the last stage, a microbatch's backward pass needs only its own forward pass.) A
/// forward pass takes T_F and a backward pass T_B, on every stage, and messages take no time. The
/// step must take (m + p - 1)(T_F + T_B), whatever T_F and T_B are: no schedule is faster. The
/// order of the microbatches is up to you, and memory is not limited.
std::vector<Action> gpipe(int stage, int stages, int microbatches);

}  // namespace lockstep::exercises
