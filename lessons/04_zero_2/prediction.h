#pragma once

#include "lessons/03_zero_1/prediction.h"

namespace lockstep {

/// Predicts one step of one rank. Gradient memory holds this rank's shards and, in full, the bucket
/// being filled and the previous one, which is in flight. Each microbatch's gradients are reduced.
inline Predicted predict_zero_2(const Plan& plan, const Place& place, const FlatLayout& layout) {
  Predicted predicted = predict_zero_1(plan, place, layout);
  Figure& reduced = predicted.bytes_sent[Operation::reduce_scatter];
  reduced = *reduced * plan.batch.microbatches;

  std::int64_t two = 0, before = 0, scratch = 0;
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    two = std::max(two, before + bucket.elements);
    before = bucket.elements;
    scratch = std::max(scratch, ring_scratch(bucket.elements, plan));
  }
  const StateBytes each = state_bytes(plan);
  const std::int64_t trained = layout.elements(false);
  const std::int64_t shards = zero_states(2, trained, layout.shards(), each).gradients;
  Figure& gradients = predicted.peak_bytes[MemoryCategory::gradients];
  gradients = *gradients + shards + each.gradient * (two - trained);
  predicted.peak_bytes[MemoryCategory::communication] = each.gradient * scratch;
  predicted.sum_order = [layout] { return ring_order_by_microbatch(layout); };
  return predicted;
}

inline Predicted predict_zero_2(const Plan& plan, const Place& place, std::int64_t bucket_bytes) {
  return predict_zero_2(plan, place, layout_of_replicas(plan, place, bucket_bytes));
}

}  // namespace lockstep
