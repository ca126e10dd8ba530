#pragma once

#include <utility>
#include <vector>

#include "core/model/builder.h"
#include "lessons/08_gpipe/prediction.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/12_expert_parallel/given_routing.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/16_all_axes/all_axes.h"

namespace lockstep {

/// Runs the routed steps as one rank of the plan.
inline DryFigures dry_run_routed(const Plan& plan, const Place& place, const Schedule& schedule,
                                 AllAxes chosen, const RoutedSteps& routed) {
  GivenRouting given;
  chosen.moe.given = &given;
  UnreadRoutingLog ignored;
  Plan as_routed = plan;
  set_builder(as_routed, builder_of(chosen, ignored));
  const auto& actions = schedule.actions[static_cast<std::size_t>(place.coordinate(Axis::pp))];
  const int steps = routed.give(actions, /*again=*/chosen.recompute == Recompute::full, given);
  return dry_run_mesh(as_routed, place, schedule, chosen, steps);
}

/// Returns the operations of this run with balanced routing, as in lesson 12; none if it has no
/// experts. Each phase follows its schedule.
inline RunOperations with_equal_rows(const Plan& plan, AllAxes chosen,
                                     const std::vector<std::pair<Schedule, Phase>>& phases) {
  if (!chosen.has_experts()) return {};
  chosen.moe.synthetic = SyntheticRouting::balanced;
  UnreadRoutingLog ignored;
  Plan balanced = plan;
  set_builder(balanced, builder_of(chosen, ignored));
  return record_dry_run(balanced, [&](DryRank& rank) {
    MeshTraining training{rank, chosen};
    for (const auto& [schedule, phase] : phases) {
      PipelineExecutor pipeline = training.pipeline(schedule);
      rank.run(
          phase.microbatches, [&](const Batch& mine) { training.step(pipeline, mine); },
          phase.steps);
    }
  });
}
/// ... if all phases follow 1F1B.
inline RunOperations with_equal_rows(const Plan& plan, const AllAxes& chosen,
                                     const std::vector<Phase>& phases) {
  std::vector<std::pair<Schedule, Phase>> scheduled;
  for (const Phase& phase : phases)
    scheduled.emplace_back(one_f_one_b(plan.mesh.size(Axis::pp), phase.microbatches), phase);
  return with_equal_rows(plan, chosen, scheduled);
}

/// Sets the bytes and peaks of one step of one rank, by lesson 15's dry run. With experts, they
/// depend on the routing: they are set at the end of the phase, by a dry run with the routing that
/// happened. What `rank` refers to, `log` and `sent` (see predict_3d) must outlive the prediction.
inline void set_by_dry_run(Predicted& predicted, const RankContext& rank, const Schedule& schedule,
                           const AllAxes& chosen, RoutingLog& log, SentTo* sent = nullptr) {
  const Plan& plan = rank.plan;
  const Place& place = rank.place;
  const auto fill = [sent](Predicted& prediction, DryFigures figures) {
    figures.fill(prediction);
    if (sent != nullptr) *sent = std::move(figures.sent_to);
  };
  if (!chosen.has_experts()) return fill(predicted, dry_run_mesh(plan, place, schedule, chosen));
  await_routing(predicted);
  Transport& transport = rank.endpoint.transport;
  const std::size_t first = routings_so_far(plan, place, log);
  predicted.at_end = [=, &transport, &plan, &place, &log](Predicted& complete) {
    const RoutedSteps routed{transport, plan, place, log, first, schedule.microbatches};
    if (routed.steps() > 0) fill(complete, dry_run_routed(plan, place, schedule, chosen, routed));
  };
}

/// Predicts one step of one rank: 1F1B's bubble by its formula, bytes and peaks by set_by_dry_run.
inline Predicted predict_all_axes(const RankContext& rank, const Schedule& schedule,
                                  const AllAxes& chosen, RoutingLog& log, SentTo* sent = nullptr) {
  Predicted predicted = predict_schedule_only(rank.plan, rank.place, schedule);
  set_gpipe_bubble(predicted, schedule);
  set_by_dry_run(predicted, rank, schedule, chosen, log, sent);
  return predicted;
}

}  // namespace lockstep
