#pragma once

#include <optional>
#include <vector>

#include "core/comm/rank_context.h"
#include "core/pipeline/executor.h"
#include "core/pipeline/rank_stages.h"
#include "core/pipeline/update.h"
#include "lessons/15_3d/replicas.h"
#include "lessons/15_3d/three_d.h"

namespace lockstep {

/// One rank of a mesh: its stages, their replicas and their optimizer, and a step of training. A
/// rank of the run and its dry run execute this code.
class MeshTraining {
 public:
  /// Lesson 6 or 7 along tp (the plan's builder), lesson 2, 3, 4 or 5 along dp, and lesson 9, 10 or
  /// 11 along pp. All ranks of the run must create theirs at the same point of the program. What
  /// `rank` refers to must outlive this object.
  MeshTraining(const RankContext& rank, const Composition& chosen)
      : rank_(rank),
        chosen_(chosen),
        pipeline_ranks_(rank.group(Axis::pp)),
        stages_(rank.plan, rank.place, rank.device(), storage_of(chosen), &rank.groups),
        models_(stages_.models()),
        replicas_(models_, rank.endpoint, rank.groups, rank.plan, rank.place, chosen),
        update_(rank.endpoint, pipeline_ranks_, rank.plan, models_, replicas_.adamw(),
                chosen.shards(rank.place)) {}

  /// Returns an executor of the schedule on the rank's stages.
  PipelineExecutor pipeline(const Schedule& schedule) {
    return {rank_.endpoint, pipeline_ranks_, schedule, models_,
            boundary_of(rank_.plan, schedule.microbatches, chosen_)};
  }

  /// Trains on one batch. Returns the loss on the ranks of the last stage.
  std::optional<BatchLoss> step(PipelineExecutor& pipeline, const Batch& mine) {
    replicas_.zero_gradients();
    // Along tp, layers exchange their terms in every action; along pp, stages exchange
    // activations; along dp, a stage's buckets of gradients leave while its last microbatch
    // completes them.
    const std::optional<BatchLoss> loss = pipeline.step(mine);
    replicas_.sum_gradients();
    if (chosen_.sequence_parallel)
      sum_norms(*models_.front(), replicas_.parts(), rank_.group(Axis::tp));
    // The clipped norm covers all stages, slices and shards, each element once.
    update_.step();
    replicas_.share_parameters();
    return loss;
  }

  AdamW& adamw() { return replicas_.adamw(); }
  /// See Replicas.
  const std::vector<Parameter*>& parts() const { return replicas_.parts(); }
  const std::vector<Parameter*>& held() const { return replicas_.held(); }

 private:
  RankContext rank_;
  Composition chosen_;
  Group& pipeline_ranks_;
  RankStages stages_;
  std::vector<Gpt*> models_;  ///< stages_, in ascending order
  Replicas replicas_;
  PipelineUpdate update_;
};

}  // namespace lockstep
