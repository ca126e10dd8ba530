#pragma once

#include "core/plan/config.h"
#include "core/pipeline/schedule.h"
#include "core/pipeline/simulator.h"
#include "core/plan/prediction.h"
#include "core/run/rank.h"

namespace lockstep {

/// What a stage's actions cost by `clock`'s cluster or fixed times, for microbatches of `batch`
/// sequences: the model itself is run on the meta device, which computes nothing and charges
/// everything. All zero on a wall clock.
StageTimes stage_times(const GptConfig& config, int stage, int stages, int batch,
                       const Clock& clock);

/// The same for all stages, with what a boundary carries and the cluster's links: what simulate()
/// takes.
PipelineTimes pipeline_times(const GptConfig& config, int stages, int batch, const Clock& clock);

/// The highest that MemoryCategory::communication reaches on `rank` while it follows the schedule:
/// what it has asked for and not used, and what it has sent and may not let go of yet (see
/// MessagePlan).
std::int64_t peak_in_flight(const Schedule& schedule, int rank, std::int64_t boundary_bytes);

/// What the formulas say of a pipeline of whole stages: bytes sent, peak memory by category, and
/// the simulator's bubbles, for `rank` following `schedule`. The closed form of the bubble is the
/// lesson's to add.
Predicted predict_pipeline(const Rank& rank, const Options& options, const Schedule& schedule);

}  // namespace lockstep
