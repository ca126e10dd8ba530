#pragma once

#include <vector>

#include "core/plan/plan.h"

namespace lockstep {

/// Returns whether the mesh divides single layers: whether any parameter is cut among ranks.
bool divides_layers(const Plan& plan);

/// Returns whether ranks divide the experts of layers.
bool divides_experts(const Plan& plan);

// ZeRO can divide a stage's states among all ranks of dp × cp, or among every `shards` consecutive
// ones: with hybrid sharding, dp ranks 0 and 1 may share one copy of the states, and ranks 2 and 3
// another. `shards` must divide the number of these ranks.

/// Returns the ranks with which a rank shares one copy of its stage's states: its block of `shards`
/// members of its dp_cp group.
std::vector<int> sharers(const Place& place, int shards);
/// Returns the ranks of its dp_cp group that hold the same shard: one of each block.
std::vector<int> replicas_of_shard(const Place& place, int shards);

/// Returns the ranks among which the model's parameters are divided and which include `rank`: its
/// pipeline, the ranks that share its layers or its experts if these are divided, and its sharers.
/// Ascending.
std::vector<int> ranks_of_model(const Plan& plan, int rank, int shards = 1);

/// Returns whether `rank` is the first of the ranks_of_model() on its stage that hold the same
/// slice of a parameter: the only one if the parameter is cut, else the one with coordinate 0.
bool is_first_holder(const Plan& plan, const ParameterSpec& spec, int rank);

}  // namespace lockstep
