#pragma once

#include <optional>
#include <vector>

#include "core/pipeline/schedule.h"
#include "core/pipeline/simulator.h"
#include "core/plan/footprint.h"
#include "core/plan/plan.h"
#include "core/plan/prediction.h"

namespace lockstep {

/// What a stage's actions cost by the plan's cluster or fixed times, if a step is cut into m
/// microbatches: the model itself is run on the meta device, which computes nothing and charges
/// everything. All zero on a wall clock.
StageTimes stage_times(const Plan& plan, int stage, int microbatches);

/// The same for all stages, with the boundary's bytes and the cluster's links, as simulate() takes
/// them; the links are those of the first replica's pipeline. Stages whose layers are alike are run
/// once. One difference within a stage is left out: if
/// both uses of a tied table are in one stage, its last backward also adds their gradients.
PipelineTimes pipeline_times(const Plan& plan, int microbatches);

/// The highest that MemoryCategory::activations reaches on `rank` while it follows the valid
/// schedule, in bytes. `footprints` has one entry per stage. At every moment the rank holds the
/// stashes of its live microbatches, what is pending between I and W, and the boundary tensors that
/// one of its stages has handed to another and that are not used yet; the action in hand adds its
/// working set.
std::int64_t peak_activations(const Schedule& schedule, int rank,
                              const std::vector<Footprint>& footprints);

/// Predicts a pipeline whose stages hold whole layers: bytes sent, peak memory by category, and the
/// simulator's bubble. It is computed from plain values, without a rank or a transport. What all
/// ranks share is computed once, by the constructor. The closed form of the bubble is the lesson's
/// to add.
class PipelinePrediction {
 public:
  /// Throws ScheduleError for an invalid schedule, and std::invalid_argument if it places the
  /// stages on other ranks than the plan does.
  PipelinePrediction(const Plan& plan, Schedule schedule);

  /// The prediction for one rank. Takes time proportional to the actions of that rank and of its
  /// peers.
  Predicted of(const Place& place) const;

 private:
  Plan plan_;
  Schedule schedule_;
  std::int64_t boundary_bytes_;
  std::vector<Footprint> footprints_;       ///< (stages)
  std::optional<double> bubble_simulated_;  ///< on the modelled clock
};

/// One rank's PipelinePrediction.
Predicted predict_pipeline(const Plan& plan, const Place& place, const Schedule& schedule);

}  // namespace lockstep
