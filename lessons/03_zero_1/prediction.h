#pragma once

#include "lessons/02_data_parallel/prediction.h"
#include "lessons/03_zero_1/zero_memory.h"

namespace lockstep {

/// Elements that one rank sends in a ring reduce-scatter or all-gather of a bucket: all shards
/// except one, which is (n-1)/n of the bucket for n ranks.
inline std::int64_t ring_half_sends(std::int64_t elements, int ranks) {
  return elements - elements / ranks;
}

/// Bytes of each model state per parameter, for the plan's dtype.
inline StateBytes state_bytes(const Plan& plan) {
  return plan.model().dtype == DType::f32 ? f32_states : mixed_states;
}

/// Predicts one step of one rank. There are no optimizer states for padding.
inline Predicted predict_zero_1(const Plan& plan, const Place& place, std::int64_t bucket_bytes) {
  const FlatLayout layout = layout_of_replicas(plan, place, bucket_bytes);
  Predicted predicted = predict_data_parallel(plan, place, GradientSync::overlap, bucket_bytes);
  const int n = layout.shards();
  const std::int64_t trained = layout.elements(false), frozen = layout.elements() - trained;
  const std::int64_t half = width_of(plan) * ring_half_sends(trained, n);
  predicted.bytes_sent[Operation::all_reduce] = 0;
  predicted.bytes_sent[Operation::reduce_scatter] = half;
  predicted.bytes_sent[Operation::all_gather] = half;
  const StateBytes each = state_bytes(plan);
  predicted.peak_bytes[MemoryCategory::parameters] =
      zero_states(1, trained, n, each).parameters + each.value * frozen;
  predicted.peak_bytes[MemoryCategory::optimizer] =
      each.optimizer * layout.owned(place.coordinate(Axis::dp_cp) % n);
  return predicted;
}

}  // namespace lockstep
