#pragma once

#include <optional>
#include <string>

#include "core/pipeline/balance.h"
#include "core/pipeline/schedule.h"
#include "core/pipeline/simulator.h"
#include "core/plan/plan.h"
#include "core/plan/prediction.h"

namespace lockstep {

/// Returns the times of a stage's actions on the plan's cluster, or the plan's fixed times, for a
/// step with m microbatches. Runs the model on the meta device, which computes nothing but charges
/// all costs to the clock. All times are zero on the wall clock.
StageTimes stage_times(const Plan& plan, int stage, int microbatches);

/// Returns why the plan's fixed times (--time) do not fit the schedule, which splits backward
/// passes while only whole ones have a time, and what would fit; empty if they fit.
std::string untimed_halves(const Plan& plan, const Schedule& schedule);

/// Returns the inputs of simulate(): the times of all stages, the boundary's bytes, and the links
/// of the first replica's pipeline. Of several stages with the same layers, runs only one. Ignores
/// one cost: if a tied table is used twice on one stage, that stage's last backward also adds the
/// two gradients.
PipelineTimes pipeline_times(const Plan& plan, int microbatches);

/// Returns the times of the model's parts on the rank that holds each stage in the pipeline of
/// `rank`, for a step with m microbatches. Runs each part once per kind of rank. There must be at
/// least three blocks.
PartTimesByStage part_times(const Plan& plan, int microbatches, int rank = 0);

/// Searches for a division of the blocks into stages that shortens a step of the schedule on the
/// plan's cluster (shortest_step() in balance.h). All steps are simulated with pipeline_times().
/// The plan must have a modelled clock. With fixed times, no division is better than another.
SplitProposal propose_split(const Plan& plan, const Schedule& schedule);

/// Predicts the figures that depend on the schedule alone: its name and stages, the microbatches in
/// flight and the simulator's bubble. (The simulator supports only layers that do not communicate;
/// if layers or sequences are divided among ranks, there is no simulated bubble.) Sets neither
/// bytes nor peaks. See PipelinePrediction for the errors.
Predicted predict_schedule_only(const Plan& plan, const Place& place, const Schedule& schedule);

/// Predicts a pipeline without replicas, with one stage of whole layers per rank and undivided
/// backward passes. In addition to predict_schedule_only(), sets the bytes that stages and the
/// update send, and peak memory by category. The activations are Footprint's stash times the
/// microbatches in flight, plus the working memory of one action. Needs no rank and no transport.
/// The constructor computes the parts that all ranks share. The lesson adds the closed form of the
/// bubble.
class PipelinePrediction {
 public:
  /// Throws ScheduleError for an invalid schedule, and std::invalid_argument if the schedule and
  /// the plan place stages on different ranks.
  PipelinePrediction(const Plan& plan, Schedule schedule);

  /// Returns the prediction for one rank. Takes time linear in the number of actions of that rank
  /// and of its peers.
  Predicted of(const Place& place) const;
  /// Returns the figures that depend on the schedule alone.
  Predicted of_schedule(const Place& place) const;

 private:
  Plan plan_;
  Schedule schedule_;
  std::optional<double> bubble_simulated_;  ///< on the modelled clock
};

/// Returns the prediction for one rank; to predict several ranks, use PipelinePrediction.
Predicted predict_pipeline(const Plan& plan, const Place& place, const Schedule& schedule);

}  // namespace lockstep
