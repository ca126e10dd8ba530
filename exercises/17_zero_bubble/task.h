#pragma once

#include "core/pipeline/schedule.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Returns what stage `stage` of a pipeline of p = `stages` stages does in one step, in order: for
/// each of m microbatches, 0 to m - 1, its forward pass, Action{Op::forward, stage, microbatch},
/// later the gradient of its input, Action{Op::backward_input, stage, microbatch}, and later the
/// gradient of the weights, Action{Op::backward_weight, stage, microbatch}: F, I and W. Each stage
/// is on a rank of its own, and m >= p.
///
/// F waits for the F of the previous stage, and I for the I of the next stage. (On the last stage,
/// I needs only its own F.) W waits only for the I of its own stage. They take T_F, T_I and T_W on
/// every stage; T_W is not larger than T_F and T_I. Messages take no time.
///
/// The step may take m (T_F + T_I + T_W) + (p - 1)(T_F + T_I - T_W). 1F1B, with I and W as one
/// action, takes m (T_F + T_I + T_W) + (p - 1)(T_F + T_I + T_W). Of the difference, one half comes
/// from gradients that no longer wait for W's, and one half from W's that run in idle time.
///
/// A stage holds a microbatch from the start of its F to the end of its W. Every stage may hold at
/// most p microbatches at a time.
std::vector<Action> zero_bubble(int stage, int stages, int microbatches);

}  // namespace lockstep::exercises
