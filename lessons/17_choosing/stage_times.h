#pragma once

#include "lessons/15_3d/stage_times.h"
#include "lessons/16_all_axes/all_axes.h"

namespace lockstep {

/// Returns the times of the stages' actions, by which a schedule can be chosen: those of lesson 15,
/// with the forward passes that are repeated (--recompute full). None if they are not known: on the
/// wall clock, and if a stage's time depends on the ranks with which it shares sequences, or on the
/// routing to its experts.
inline PipelineTimes times_of_stages(const Plan& plan, int microbatches, const AllAxes& chosen) {
  if (!plan.modelled || plan.mesh.size(Axis::cp) > 1 || chosen.has_experts()) return {};
  PipelineTimes times = times_3d(plan, microbatches, chosen);
  if (chosen.recompute != Recompute::full || plan.mesh.size(Axis::tp) == 1) return times;
  // A block that runs forward again also exchanges its two results again along tp.
  const Picoseconds exchange = exchange_time(plan, microbatches);
  for (int i = 0; i < plan.stages(); ++i) {
    StageTimes& stage = times.stages[static_cast<std::size_t>(i)];
    const Picoseconds again = 2 * plan.layers_of(i).count() * exchange;
    stage.backward_input += again;
    stage.backward += again;
  }
  return times;
}

}  // namespace lockstep
