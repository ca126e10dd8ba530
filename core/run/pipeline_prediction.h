#pragma once

#include <optional>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/config.h"
#include "core/model/footprint.h"
#include "core/pipeline/schedule.h"
#include "core/pipeline/simulator.h"
#include "core/plan/boundary.h"
#include "core/run/prediction.h"
#include "core/run/rank.h"

namespace lockstep {

/// The boundary between stages that each hold whole layers, for microbatches of `batch` sequences:
/// (batch, s, h) in config.dtype.
Boundary stage_boundary(const GptConfig& config, int batch);

/// What a stage's actions cost by `clock`'s cluster or fixed times, for microbatches of `batch`
/// sequences: the model itself is run on the meta device, which computes nothing and charges
/// everything. All zero on a wall clock.
StageTimes stage_times(const GptConfig& config, int stage, int stages, int batch,
                       const Clock& clock);

/// The same for all stages, with the boundary's bytes and the cluster's links, as simulate() takes
/// them. Stages whose layers are alike are run once. One difference within a stage is left out: if
/// both uses of a tied table are in one stage, its last backward also adds their gradients.
PipelineTimes pipeline_times(const GptConfig& config, int stages, int batch, const Clock& clock);

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
  /// For microbatches of `batch` sequences of the model, on `clock`. `collectives` and `combines`
  /// (Transport::combines()) decide what PipelineUpdate sends and holds. Throws ScheduleError for
  /// an invalid schedule.
  PipelinePrediction(const GptConfig& config, Schedule schedule, int batch, const Clock& clock,
                     const AdamWOptions& optimizer, Collectives collectives, bool combines);

  /// The prediction for pipeline rank `rank`. Takes time proportional to the actions of that rank
  /// and of its peers.
  Predicted of(int rank) const;

 private:
  GptConfig config_;
  Schedule schedule_;
  std::int64_t boundary_bytes_;
  bool clips_;
  Collectives collectives_;
  bool combines_;
  std::vector<Footprint> footprints_;       ///< (stages)
  std::optional<double> bubble_simulated_;  ///< on the modelled clock
};

/// The PipelinePrediction of `rank` in a run with these options, whose pipeline follows `schedule`.
Predicted predict_pipeline(const Rank& rank, const Options& options, const Schedule& schedule);

}  // namespace lockstep
