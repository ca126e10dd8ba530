#pragma once

#include <vector>

#include "viz/read/kineto/actions.h"

namespace lockstep::kineto {

/// Infers the forward and backward passes of a trace without annotations from autograd's links
/// (Trace::links). Two links belong to the same microbatch if neither a pass in the other
/// direction nor a message separates their forward operators, and the same holds for their backward
/// operators. Numbers the microbatches of each step, and leaves the stages unknown.
std::vector<Action> autograd_passes(const Trace& trace, const RankCalls& calls);

}  // namespace lockstep::kineto
