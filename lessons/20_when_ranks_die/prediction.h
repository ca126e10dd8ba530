#pragma once

#include <algorithm>

#include "lessons/02_data_parallel/prediction.h"
#include "lessons/08_gpipe/prediction.h"
#include "lessons/20_when_ranks_die/faults.h"
#include "lessons/20_when_ranks_die/surviving_pipeline.h"

namespace lockstep {

/// Returns the plan of `members` replicas: each keeps its share of the batch, so the batch is
/// smaller.
inline Plan plan_of_replicas(const Plan& plan, int members) {
  Plan fewer = plan;
  fewer.set_mesh(Mesh::along(Axis::dp, members));
  fewer.batch.sequences = plan.batch.sequences / plan.mesh.size(Axis::dp) * members;
  return fewer;
}

/// Predicts a step of a replica in a phase with the same members: lesson 2's, on as many ranks. If
/// a member returns, one of the others also sends it the parameters and both moments.
inline Predicted predict_replica(const Plan& plan, int rank, const Faults& faults,
                                 const Phase& phase, std::int64_t bucket_bytes) {
  const std::vector<int> members = faults.members(plan.mesh.ranks(), phase.first_step);
  const auto member = std::ranges::find(members, rank);
  const bool takes_part = member != members.end();
  const Plan fewer = plan_of_replicas(plan, static_cast<int>(members.size()));
  const Place place = fewer.place(takes_part ? static_cast<int>(member - members.begin()) : 0);
  Predicted predicted = predict_data_parallel(fewer, place, GradientSync::overlap, bucket_bytes);
  if (!takes_part) {
    predicted.bytes_sent = Predicted::nothing_sent();
    predicted.peak_bytes.fill(0);
  }
  if (faults.changes(phase.first_step) || faults.attempt_fails(phase.first_step))
    predicted.peak_bytes.fill(
        Figure::not_predicted("in this step, members change or an attempt is repeated"));
  const auto not_predicted = Figure::not_predicted(
      "an attempt that fails has sent an unknown part of its gradients, and of the state");
  if (faults.attempt_fails(phase.first_step)) {
    predicted.bytes_sent[Operation::all_reduce] = not_predicted;
    predicted.bytes_sent[Operation::send] = not_predicted;
    return predicted;
  }
  std::vector<int> sources, targets;
  for (const int each : members)
    (phase.first_step > 0 && !faults.takes_part(each, phase.first_step - 1) ? targets : sources)
        .push_back(each);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (sources[i % sources.size()] == rank)
      predicted.bytes_sent[Operation::send] = *predicted.bytes_sent[Operation::send] +
                                              3 * width_of(plan) * plan.model().parameter_count();
  return predicted;
}

/// Predicts a step of a pipeline's rank in a phase with the same members: lesson 9's, on as many
/// ranks, and on average the bytes of the checkpoints that leave in the phase.
inline Predicted predict_survivor_of_pipeline(const Plan& plan, int rank, const Faults& faults,
                                              const Phase& phase, int interval) {
  const std::vector<int> members = faults.members(plan.mesh.ranks(), phase.first_step);
  const auto member = std::ranges::find(members, rank);
  const bool takes_part = member != members.end();
  const int n = static_cast<int>(members.size());
  const int i = takes_part ? static_cast<int>(member - members.begin()) : 0;
  const Plan fewer = plan_of_pipeline(plan, n);
  Predicted predicted = predict_gpipe(fewer, fewer.place(i), one_f_one_b(n, phase.microbatches));
  if (!takes_part) {
    predicted.bytes_sent = Predicted::nothing_sent();
    predicted.peak_bytes.fill(0);
    predicted.in_flight = 0;
  }
  if (faults.changes(phase.first_step) || faults.attempt_fails(phase.first_step)) {
    const auto why = Figure::not_predicted("in this step, ranks recover and repeat steps");
    predicted.bubble.reset();
    predicted.bubble_simulated.reset();
    predicted.in_flight.reset();
    predicted.propose_split = {};
    predicted.peak_bytes.fill(why);
    predicted.bytes_sent[Operation::send] = why;
    return predicted;
  }
  if (!takes_part) return predicted;
  const auto state = [&](int of) {
    return width_of(plan) * StateLayout{fewer, fewer.place((of + n) % n)}.elements();
  };
  predicted.peak_bytes[MemoryCategory::communication] =
      *predicted.peak_bytes[MemoryCategory::communication] + 2 * (state(i) + state(i - 1));
  int checkpoints = 0;
  for (int step = phase.first_step; step < phase.first_step + phase.steps; ++step)
    checkpoints += (step + 1) % interval == 0 ? 1 : 0;
  if (n > 1)
    predicted.bytes_sent[Operation::send] =
        *predicted.bytes_sent[Operation::send] + checkpoints * state(i) / phase.steps;
  return predicted;
}

}  // namespace lockstep
