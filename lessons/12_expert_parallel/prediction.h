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

/// Runs the steps as one rank of the plan, with the routing in each of them: that of every rank of
/// its expert-parallel group, from which it derives the rows that it receives.
inline DryFigures dry_run_experts(const Plan& plan, const Place& place, MixtureOfExperts moe,
                                  const ExpertBuilder& builder, const RoutedSteps& routed, int m,
                                  std::int64_t bucket_bytes) {
  GivenRouting given;
  moe.given = &given;
  UnreadRoutingLog ignored;
  Plan as_routed = plan;
  set_model(as_routed, plan.model(), builder(moe, ignored));
  std::vector<Action> forward;  // of all microbatches, one after another
  for (int i = 0; i < m; ++i) forward.push_back({Op::forward, 0, i});
  const std::size_t steps = routed.all_alike() ? 1 : routed.steps();
  for (std::size_t step = 0; step < steps; ++step)
    routed.give(step, forward, /*again=*/false, given);
  return dry_run(as_routed, place, [&](DryRank& rank) {
    ExpertTraining training{rank, bucket_bytes};
    rank.run(
        m, [&](const Batch& mine) { training.step(mine); }, static_cast<int>(steps));
  });
}

/// Predicts one step of one rank with m microbatches. Its bytes and peaks depend on the routing, so
/// they are set once the phase is over, from the routing that happened. `rank` and `log` must
/// outlive the prediction.
inline Predicted predict_expert_parallel(const RankContext& rank, const MixtureOfExperts& moe,
                                         const ExpertBuilder& builder, RoutingLog& log, int m,
                                         std::int64_t bucket_bytes) {
  Predicted predicted;
  predicted.recomputed = true;
  const Figure unknown = Figure::not_predicted("depends on the routing");
  for (const Operation operation : all_operations) predicted.bytes_sent[operation] = unknown;
  predicted.peak_bytes.fill(unknown);
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

}  // namespace lockstep
