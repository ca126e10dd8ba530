#pragma once

#include <array>

#include "core/pipeline/pipeline_prediction.h"
#include "core/plan/ranks_of_model.h"
#include "lessons/15_3d/three_d.h"

namespace lockstep {

/// Returns the duration of one exchange of lesson 6 or 7 on the modelled clock: a ring of t ranks
/// sums N h elements, or sums the shards and gathers them, in 2 (t - 1) messages.
inline Picoseconds exchange_time(const Plan& plan, int microbatches) {
  const std::vector<int> ranks = plan.mesh.group(0, Axis::tp);
  const auto t = static_cast<std::int64_t>(ranks.size());
  const std::int64_t bytes = plan.boundary(microbatches).bytes() / t;
  const Cluster& cluster = plan.modelled->cluster;
  return stretched(
      plus(cluster.latency(ranks[0], ranks[1], bytes), cluster.transfer(ranks[0], ranks[1], bytes)),
      static_cast<double>(2 * (t - 1)));
}

/// Returns the times of the stages' actions, by which a schedule can be chosen. If t ranks share
/// each layer, they are estimates: 1/t of the time of whole layers, and the exchanges, two in each
/// half of a layer's pass but none for the weights' gradients. (The parts of a layer that are not
/// divided take longer. The time of a run is observed, not estimated.)
inline PipelineTimes times_3d(const Plan& plan, int microbatches, const Composition& chosen) {
  if (!plan.modelled) return {};
  const int t = plan.mesh.size(Axis::tp);
  if (t == 1) return pipeline_times(plan, microbatches);
  Plan whole = plan;
  whole.mesh =
      Mesh{plan.mesh.ranks() / t, {1, 1, plan.mesh.size(Axis::dp), plan.mesh.size(Axis::pp)}};
  whole.modelled->slow.clear();  // its ranks are others
  whole.modelled->cluster.groups.clear();
  PipelineTimes times = pipeline_times(whole, microbatches);
  const Picoseconds exchange = exchange_time(plan, microbatches);
  for (int i = 0; i < plan.stages(); ++i) {
    StageTimes& stage = times.stages[static_cast<std::size_t>(i)];
    const StageLayers layers = plan.layers_of(i);
    stage.forward =
        stage.forward / t + (2 * layers.count() + (layers.embedding ? 1 : 0)) * exchange;
    stage.backward_input =
        stage.backward_input / t + (2 * layers.count() + (layers.head ? 1 : 0)) * exchange;
    stage.backward_weight /= t;
    stage.backward = stage.backward_input + stage.backward_weight;
  }
  times.boundary_bytes = boundary_of(plan, microbatches, chosen).bytes();
  times.world_ranks = plan.mesh.group(0, Axis::pp);
  return times;
}

}  // namespace lockstep
