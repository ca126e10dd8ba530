#pragma once

#include <vector>

#include "viz/read/kineto/actions.h"

namespace lockstep::kineto {

// In both functions, the actions, the calls and the ranks' numbers are parallel.

/// Infers the stages of a pipeline whose actions name none, from its messages. A rank that receives
/// nothing before its first forward pass has stage 0, the rank that receives from it has stage 1,
/// and so on. Returns whether it could infer them: each rank must have one stage, and the ranks
/// must form chains.
bool infer_stages(std::vector<RankActions>& actions, const std::vector<RankCalls>& calls,
                  const std::vector<int>& numbers);

/// Labels the messages between stages that the trace leaves unlabelled, if their ranks are known.
/// On each pair of ranks, the n-th message carries the n-th result of the sender that a stage of
/// the receiver uses.
void label_messages(const std::vector<RankActions>& actions, std::vector<RankCalls>& calls,
                    const std::vector<int>& numbers);

}  // namespace lockstep::kineto
