#pragma once

#include "core/dry_run/dry_run.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/15_3d/stage_times.h"
#include "lessons/15_3d/three_d.h"
#include "lessons/schedules/prediction.h"

namespace lockstep {

/// Runs `count` steps of the schedule as one rank of the plan, without the other ranks.
inline DryFigures dry_run_mesh(const Plan& plan, const Place& place, const Schedule& schedule,
                               const Composition& chosen, int count = 1) {
  return dry_run(plan, place, [&](DryRank& rank) {
    MeshTraining training{rank, chosen};
    PipelineExecutor pipeline = training.pipeline(schedule);
    rank.run(
        schedule.microbatches, [&](const Batch& mine) { training.step(pipeline, mine); }, count);
  });
}

/// Predicts one step of one rank: the bubble by its formula, bytes and peaks by a dry run. Lessons
/// 2 to 9 have formulas for one technique at a time. Their compositions have none: messages of the
/// pipeline are in flight while layers communicate, and buckets of gradients while the backward
/// pass continues below them. `sent`, if given, receives the bytes by group and receiver.
inline Predicted predict_3d(const Plan& plan, const Place& place, const Schedule& schedule,
                            const Composition& chosen, SentTo* sent = nullptr) {
  Predicted predicted = predict_schedule_only(plan, place, schedule);
  set_bubble(predicted, schedule, times_3d(plan, schedule.microbatches, chosen));
  DryFigures figures = dry_run_mesh(plan, place, schedule, chosen);
  figures.fill(predicted);
  if (sent != nullptr) *sent = std::move(figures.sent_to);
  return predicted;
}

}  // namespace lockstep
