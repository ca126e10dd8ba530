#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "core/dry_run/dry_run.h"
#include "core/pipeline/pipeline_prediction.h"
#include "core/replay/replay.h"
#include "lessons/15_3d/mesh_training.h"
#include "lessons/19_unlike_machines/unlike_machines.h"

namespace lockstep {

/// The compute of one rank in a step: its stage, for all microbatches of its replica.
struct StageWork {
  int rank = 0;
  int stage = 0;
  int replica = 0;
  int microbatches = 0;
  Picoseconds microbatch = 0;  ///< forward and backward of one microbatch

  Picoseconds all() const { return microbatch * microbatches; }
};

/// Returns the ranks' compute in a step on the modelled clock, by rank.
inline std::vector<StageWork> work_of_ranks(const Plan& plan) {
  std::vector<StageWork> all;
  const int m = plan.batch.microbatches;
  for (const int first : plan.mesh.group(0, Axis::dp)) {
    const int replica = plan.mesh.coordinate(first, Axis::dp);
    const std::vector<StageTimes> times =
        stages_of(part_times(plan, m, first), plan.blocks_of_stages());
    for (int stage = 0; stage < plan.stages(); ++stage) {
      const StageTimes& its = times[static_cast<std::size_t>(stage)];
      all.push_back({plan.rank_holding(stage, first), stage, replica,
                     plan.microbatches_of(replica, m), its.forward + its.backward});
    }
  }
  std::ranges::sort(all, {}, &StageWork::rank);
  return all;
}

/// Returns the work that sets the pace: that of the rank that computes longest, which all others
/// wait for; of several, the first.
inline const StageWork& pace_setter(const std::vector<StageWork>& work) {
  return *std::ranges::max_element(work, {}, &StageWork::all);
}

/// What a step of a division will take. Times are exact on the modelled clock: the ranks' own code
/// runs on the meta device, and its operations are replayed on the plan's cluster.
struct Foreseen {
  Picoseconds step = 0;
  std::vector<std::int64_t> peak;  ///< bytes, by rank
};

/// Runs one step of every rank on the meta device, one rank after another, and replays it three
/// times. The step is the third: a rank that ends a step early begins the next one early, so later
/// steps can be shorter than the first.
inline Foreseen foresee(const Plan& plan, const Composition& chosen) {
  std::map<int, DryFigures> figures;
  RunOperations operations = record_dry_run(
      plan,
      [&](DryRank& rank) {
        MeshTraining training{rank, chosen};
        PipelineExecutor pipeline =
            training.pipeline(schedule_of(plan, rank.place.coordinate(Axis::dp)));
        rank.run(plan.batch.microbatches,
                 [&](const Batch& mine) { training.step(pipeline, mine); });
      },
      {}, nullptr, &figures);
  for (auto& rank : operations.ranks)
    for (int step = 1; step < 3; ++step) {
      RunOperations::Section again = rank.sections.back();
      again.step = step;
      rank.sections.push_back(again);
    }
  const Scenario scenario{operations.modelled};
  const Replay replay{operations, scenario};
  Foreseen foreseen{.step = replay.step_time(replay.last_step()), .peak = {}};
  for (const auto& [rank, dry] : figures) foreseen.peak.push_back(dry.peak_total);
  return foreseen;
}

/// Returns the memory of a rank's device; nothing if it is unlimited.
inline std::optional<std::int64_t> memory_of(const Cluster& cluster, int rank) {
  const int group = cluster.group_of(rank);
  return group < 0 ? cluster.memory : cluster.groups[static_cast<std::size_t>(group)].memory;
}

/// Returns the rank whose peak exceeds its device's memory by most, or -1 if all ranks fit.
inline int rank_over_memory(const Plan& plan, const std::vector<std::int64_t>& peak) {
  int worst = -1;
  std::int64_t most = 0;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const auto memory = memory_of(plan.modelled->cluster, rank);
    if (!memory || peak[static_cast<std::size_t>(rank)] - *memory <= most) continue;
    most = peak[static_cast<std::size_t>(rank)] - *memory;
    worst = rank;
  }
  return worst;
}

}  // namespace lockstep
