#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/dry_run/dry_run.h"
#include "core/model/builder.h"
#include "lessons/12_expert_parallel/expert_training.h"
#include "lessons/12_expert_parallel/given_routing.h"

namespace lockstep {

/// Returns a builder of the lesson's layers.
using ExpertBuilder = std::function<std::shared_ptr<const ModelBuilder>(const MixtureOfExperts& moe,
                                                                        RoutingLog& log)>;

/// Runs the routed steps as one rank of the plan.
inline DryFigures dry_run_experts(const Plan& plan, const Place& place, MixtureOfExperts moe,
                                  const ExpertBuilder& builder, const RoutedSteps& routed, int m,
                                  std::int64_t bucket_bytes) {
  GivenRouting given;
  moe.given = &given;
  UnreadRoutingLog ignored;
  Plan as_routed = plan;
  set_builder(as_routed, builder(moe, ignored));
  std::vector<Action> forward;  // of all microbatches, one after another
  for (int i = 0; i < m; ++i) forward.push_back({Op::forward, 0, i});
  const int steps = routed.give(forward, /*again=*/false, given);
  return dry_run(as_routed, place, [&](DryRank& rank) {
    ExpertTraining training{rank, moe, bucket_bytes};
    rank.run(
        m, [&](const Batch& mine) { training.step(mine); }, steps);
  });
}

/// Predicts one step of one rank with m microbatches. Its bytes and peaks depend on the routing, so
/// they are set at the end of the phase, by a dry run with the observed routing. The objects that
/// `rank` refers to, and `log`, must outlive the prediction.
inline Predicted predict_expert_parallel(const RankContext& rank, const MixtureOfExperts& moe,
                                         const ExpertBuilder& builder, RoutingLog& log, int m,
                                         std::int64_t bucket_bytes) {
  Predicted predicted;
  await_routing(predicted);
  Transport& transport = rank.endpoint.transport;
  const Plan& plan = rank.plan;
  const Place& place = rank.place;
  const std::size_t first = routings_so_far(plan, place, log);
  predicted.at_end = [=, &transport, &plan, &place, &log](Predicted& complete) {
    const RoutedSteps routed{transport, plan, place, log, first, m};
    if (routed.steps() > 0)
      dry_run_experts(plan, place, moe, builder, routed, m, bucket_bytes).fill(complete);
  };
  return predicted;
}

/// Returns the operations of this run with balanced routing: on the meta device, all experts can
/// get the same number of rows.
inline RunOperations with_equal_rows(const Plan& plan, MixtureOfExperts moe,
                                     const ExpertBuilder& builder, const std::vector<Phase>& phases,
                                     std::int64_t bucket_bytes) {
  moe.synthetic = SyntheticRouting::balanced;
  UnreadRoutingLog ignored;
  Plan balanced = plan;
  set_builder(balanced, builder(moe, ignored));
  return record_dry_run(balanced, [&](DryRank& rank) {
    ExpertTraining training{rank, moe, bucket_bytes};
    for (const Phase& phase : phases)
      rank.run(
          phase.microbatches, [&](const Batch& mine) { training.step(mine); }, phase.steps);
  });
}

}  // namespace lockstep
