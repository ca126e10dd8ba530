#pragma once

#include "core/pipeline/schedule.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Returns the actions of stage `stage` in one step, in order. The pipeline has
/// p = `stages` stages. The actions are, for each of m microbatches, 0 to m - 1, its forward pass,
/// Action{Op::forward, stage, microbatch}, later the gradient of its input,
/// Action{Op::backward_input, stage, microbatch}, and later the gradient of the weights,
/// Action{Op::backward_weight, stage, microbatch}: F, I and W. Each stage is on a rank of its own,
/// and m >= p.
///
/// F waits for the F of the previous stage, and I for the I of the next stage. (On the last stage,
/// I needs only its own F.) W waits only for the I of its own stage. They take T_F, T_I and T_W on
/// every stage; T_W is at most T_F and at most T_I. Messages take no time.
///
/// The step may take m (T_F + T_I + T_W) + (p - 1)(T_F + T_I - T_W). 1F1B, with I and W as one
/// action, takes m (T_F + T_I + T_W) + (p - 1)(T_F + T_I + T_W). Half of the difference comes from
/// gradients that no longer wait for any W, and half from W's that fill idle time.
///
/// A stage holds a microbatch from the start of its F to the end of its W. Every stage may hold at
/// most p microbatches at a time.
std::vector<Action> zero_bubble(int stage, int stages, int microbatches);

}  // namespace lockstep::exercises
