#pragma once

#include <algorithm>

#include "lessons/16_all_axes/prediction.h"
#include "lessons/17_choosing/stage_times.h"
#include "lessons/schedules/prediction.h"

namespace lockstep {

/// Returns whether a schedule splits backward passes into halves, I and W.
inline bool splits_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.actions, [](const std::vector<Action>& actions) {
    return std::ranges::count(actions, Op::backward_input, &Action::op) > 0;
  });
}

/// Predicts one step of one rank: the bubble by its formula, bytes and peaks as in lesson 16. If
/// the schedule splits backward passes, the bubble depends on the times of F, I and W, and has no
/// value on the modelled clock if these are not known. The objects that `rank` refers to, `log` and
/// `sent` (see predict_3d) must outlive the prediction.
inline Predicted predict_configuration(const RankContext& rank, const Schedule& schedule,
                                       const AllAxes& chosen, RoutingLog& log,
                                       SentTo* sent = nullptr) {
  const PipelineTimes times = times_of_stages(rank.plan, schedule.microbatches, chosen);
  Predicted predicted = predict_schedule_only(rank.plan, rank.place, schedule);
  set_bubble(predicted, schedule, times);
  if (rank.plan.modelled && times.stages.empty() && splits_backward(schedule))
    predicted.bubble.reset();
  set_by_dry_run(predicted, rank, schedule, chosen, log, sent);
  return predicted;
}

}  // namespace lockstep
