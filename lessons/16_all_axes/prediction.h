#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "core/model/builder.h"
#include "lessons/08_gpipe/prediction.h"
#include "lessons/12_expert_parallel/given_routing.h"
#include "lessons/15_3d/prediction.h"
#include "lessons/16_all_axes/all_axes.h"

namespace lockstep {

/// Runs the steps as one rank of the plan, with the experts' routing in each of them: that of every
/// rank of its expert-parallel group, from which it derives the rows that it receives.
inline DryFigures dry_run_routed(const Plan& plan, const Place& place, const Schedule& schedule,
                                 AllAxes chosen, const RoutedSteps& routed) {
  GivenRouting given;
  chosen.moe.given = &given;
  UnreadRoutingLog ignored;
  Plan as_routed = plan;
  set_model(as_routed, plan.model(), builder_of(chosen, ignored));
  const auto& actions = schedule.actions[static_cast<std::size_t>(place.coordinate(Axis::pp))];
  const std::size_t steps = routed.all_alike() ? 1 : routed.steps();
  for (std::size_t step = 0; step < steps; ++step)
    routed.give(step, actions, /*again=*/chosen.recompute == Recompute::full, given);
  return dry_run_mesh(as_routed, place, schedule, chosen, static_cast<int>(steps));
}

/// Predicts one step of one rank, as lesson 15 does. With experts, the bytes of the all-to-alls and
/// two of the peaks depend on the routing: they are set once the phase is over, from the routing
/// that happened. `rank` and `log` must outlive the prediction; `sent`: see predict_3d.
inline Predicted predict_all_axes(const RankContext& rank, const Schedule& schedule,
                                  const AllAxes& chosen, RoutingLog& log, SentTo* sent = nullptr) {
  const Plan& plan = rank.plan;
  const Place& place = rank.place;
  Predicted predicted = predict_schedule_only(plan, place, schedule);
  set_gpipe_bubble(predicted, schedule);
  const auto fill = [sent](Predicted& prediction, DryFigures figures) {
    figures.fill(prediction);
    if (sent != nullptr) *sent = std::move(figures.sent_to);
  };
  if (!chosen.has_experts()) {
    fill(predicted, dry_run_mesh(plan, place, schedule, chosen));
    return predicted;
  }
  predicted.recomputed = true;
  const Figure unknown = Figure::not_predicted("depends on the routing");
  for (const Operation operation : all_operations) predicted.bytes_sent[operation] = unknown;
  predicted.peak_bytes.fill(unknown);
  Transport& transport = rank.endpoint.transport;
  const std::size_t first = routings_so_far(plan, place, log);
  predicted.at_end = [=, &transport, &plan, &place, &log](Predicted& complete) {
    const RoutedSteps routed{transport, plan, place, log, first, schedule.microbatches};
    if (routed.steps() > 0) fill(complete, dry_run_routed(plan, place, schedule, chosen, routed));
  };
  return predicted;
}

}  // namespace lockstep
