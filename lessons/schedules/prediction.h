#pragma once

#include "core/dry_run/dry_run.h"
#include "core/model/adamw.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/pipeline_prediction.h"
#include "core/pipeline/rank_stages.h"
#include "core/pipeline/update.h"
#include "lessons/schedules/registry.h"

namespace lockstep {

/// Returns the time of all chunks of a rank for one microbatch, averaged over the ranks. If there
/// are no times, as on the wall clock, returns equal times of F, I and W.
inline StageTimes work_of_rank(const PipelineTimes& times, int ranks) {
  StageTimes work;
  for (const StageTimes& stage : times.stages) {
    work.forward += stage.forward / ranks;
    work.backward += stage.backward / ranks;
    work.backward_input += stage.backward_input / ranks;
    work.backward_weight += stage.backward_weight / ranks;
  }
  if (work.forward + work.backward == 0)
    return {.forward = 1, .backward = 2, .backward_input = 1, .backward_weight = 1};
  return work;
}

/// If the lessons generate the schedule, sets its bubble's formula and, if there is a closed form
/// for these times, its value.
inline void set_bubble(Predicted& predicted, const Schedule& schedule, const PipelineTimes& times) {
  const KnownSchedule* known = find_schedule(schedule.name);
  if (known == nullptr) return;
  const PipelineSize size{schedule.ranks, schedule.stages / schedule.ranks, schedule.microbatches};
  predicted.bubble = bubble_of(*known, size, work_of_rank(times, schedule.ranks));
  predicted.formula = known->formula(size);
}

/// Runs one step of the schedule as one rank of the plan: the step of main.cpp in lessons 10
/// and 11.
inline DryFigures dry_run_schedule(const Plan& plan, const Place& place, const Schedule& schedule) {
  return dry_run(plan, place, [&](DryRank& rank) {
    Group& ranks = rank.group(Axis::pp);
    RankStages stages{plan, place, rank.device()};
    AdamW optimizer{stages.parameters(), rank.device(), plan.optimizer};
    PipelineUpdate update{rank.endpoint, ranks, plan, stages.models(), optimizer};
    PipelineExecutor pipeline{rank.endpoint, ranks, schedule, stages.models(),
                              plan.boundary(schedule.microbatches)};
    rank.run(schedule.microbatches, [&](const Batch& batch) {
      stages.zero_gradients();
      pipeline.step(batch);
      update.step();
    });
  });
}

/// Predicts one step of one rank: the bubble by its closed form, if there is one, and bytes and
/// peaks by a dry run. With several stages per rank, or with halves of backward passes, a rank's
/// memory depends on the order of its actions, and has no formula.
inline Predicted predict_schedule(const Plan& plan, const Place& place, const Schedule& schedule) {
  Predicted predicted = predict_schedule_only(plan, place, schedule);
  set_bubble(predicted, schedule,
             plan.modelled ? pipeline_times(plan, schedule.microbatches) : PipelineTimes{});
  dry_run_schedule(plan, place, schedule).fill(predicted);
  return predicted;
}

}  // namespace lockstep
