#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/pipeline/schedule.h"
#include "core/plan/plan.h"
#include "lessons/09_1f1b/one_f_one_b.h"

namespace lockstep {

// On ranks that differ in speed, equal work does not take equal time: everyone waits for the
// slowest. Three things can be unequal instead, without changing what is computed:
//
//     placement   which rank holds which stage: the order of the mesh's axes decides whether the
//                 stages of a pipeline or the replicas of a stage are neighbours, and within a
//                 pipeline, any rank can hold any stage
//     split       the number of blocks of each stage, the same in all replicas, because the
//                 replicas of a stage sum their gradients
//     shares      the number of microbatches of each replica; they stay equal in size, and the loss
//                 is the mean over the tokens of all of them, so the gradients' sum stays the same

/// How the ranks of a dp x pp mesh divide a step.
struct WorkDivision {
  Mesh mesh;
  std::vector<int> placement;  ///< for each stage, a coordinate on the pp axis
  std::vector<int> split;      ///< blocks, by stage
  std::vector<int> shares;     ///< microbatches, by replica
  bool operator==(const WorkDivision&) const = default;
};

/// Returns how a plan divides the step.
inline WorkDivision division_of(const Plan& plan) {
  WorkDivision division{plan.mesh, plan.rank_of_stage, plan.blocks_of_stages(), {}};
  for (int replica = 0; replica < plan.mesh.size(Axis::dp); ++replica)
    division.shares.push_back(plan.microbatches_of(replica, plan.batch.microbatches));
  return division;
}

/// Returns the plan with this division.
inline Plan divided(Plan plan, const WorkDivision& division) {
  plan.mesh = division.mesh;
  plan.rank_of_stage = division.placement;
  plan.split = division.split;
  plan.batch.shares = division.shares;
  const auto is_mean = [&](int share) { return share == plan.batch.microbatches; };
  if (std::ranges::all_of(division.shares, is_mean)) plan.batch.shares.clear();  // equal shares
  return plan;
}

/// Returns the even division of the plan's mesh: stage i on the i-th rank of each pipeline, equal
/// shares, and stages as equal as possible.
inline WorkDivision even_division(Plan plan) {
  plan.set_mesh(plan.mesh);
  plan.split.clear();
  plan.batch.shares.clear();
  return division_of(plan);
}

/// Returns a schedule with one stage per rank whose stage i is on rank i, with its stages placed on
/// other ranks. The actions of a stage do not change.
inline Schedule placed(Schedule schedule, const std::vector<int>& placement) {
  const auto of_stage = std::exchange(schedule.actions, {});
  schedule.actions.resize(of_stage.size());
  for (std::size_t stage = 0; stage < of_stage.size(); ++stage)
    schedule.actions[static_cast<std::size_t>(placement[stage])] = of_stage[stage];
  schedule.rank_of_stage = placement;
  return schedule;
}

/// Returns the schedule of one replica's pipeline: 1F1B, with as many microbatches as its share.
inline Schedule schedule_of(const Plan& plan, int replica) {
  const int m = plan.microbatches_of(replica, plan.batch.microbatches);
  return placed(one_f_one_b(plan.stages(), m), plan.rank_of_stage);
}

}  // namespace lockstep
