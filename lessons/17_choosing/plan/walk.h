#pragma once

#include <string>

#include "lessons/17_choosing/plan/configuration.h"
#include "lessons/17_choosing/plan/search.h"

namespace lockstep {

/// Returns the bytes of parameters, gradients and Adam's state: 16 per parameter, in 16 bits (2 + 2
/// + 12) as in f32 (4 + 4 + 8).
double state_bytes(const TrainingTask& task);

/// Returns the sizes that the rules of thumb lead to: tensor parallelism within the node if the
/// states do not fit on one GPU, as many stages as they then need, and replicas with the rest. The
/// sizes divide the ranks, the heads and the batch; the other sizes are open.
SearchSpace rules_of_thumb(const TrainingTask& task);

/// Walks through the decision tree for this task, in words: whether it fits, the consequences, and
/// the shapes from which each axis hides its communication.
std::string decision_tree(const TrainingTask& task);

}  // namespace lockstep
