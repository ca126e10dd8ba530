#pragma once

#include "lessons/15_3d/prediction.h"
#include "lessons/19_unlike_machines/unlike_machines.h"
#include "lessons/schedules/prediction.h"

namespace lockstep {

/// Predicts one step of one rank: bytes and peaks by a dry run, and the bubble by 1F1B's formula,
/// which holds for equal stages, and by the simulator, which knows the stages of a single pipeline.
inline Predicted predict_division(const Plan& plan, const Place& place, const Composition& chosen) {
  const Schedule schedule = schedule_of(plan, place.coordinate(Axis::dp));
  Predicted predicted = predict_schedule_only(plan, place, schedule);
  set_bubble(predicted, schedule,
             plan.modelled ? pipeline_times(plan, plan.batch.microbatches) : PipelineTimes{});
  dry_run_mesh(plan, place, schedule, chosen).fill(predicted);
  return predicted;
}

}  // namespace lockstep
