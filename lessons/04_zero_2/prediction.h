#pragma once

#include "lessons/03_zero_1/prediction.h"

namespace lockstep {

/// The largest number of elements of gradients that exist in full during a backward pass: the
/// buckets being filled, usually one, and the previous one, which is in flight.
inline std::int64_t gradients_in_full(const FlatLayout& layout) {
  std::int64_t most = 0, filling = 0, in_flight = 0;
  for (const int unit : layout.units()) {
    const auto each_bucket = [&](auto&& visit) {
      for (const std::size_t b : layout.buckets_of(unit))
        if (const FlatLayout::Bucket& bucket = layout.buckets()[b]; !bucket.frozen) visit(bucket);
    };
    each_bucket([&](const FlatLayout::Bucket& bucket) {
      if (bucket.first_unit() == unit) filling += bucket.elements;
    });
    most = std::max(most, filling + in_flight);
    each_bucket([&](const FlatLayout::Bucket& bucket) {
      if (bucket.last_unit() != unit) return;
      filling -= bucket.elements;
      in_flight = bucket.elements;
    });
  }
  return most;
}

/// Predicts one step of one rank. Gradient memory holds this rank's shards and the buckets that
/// exist in full. Each microbatch's gradients are reduced.
inline Predicted predict_zero_2(const Plan& plan, const Place& place, std::int64_t bucket_bytes) {
  const FlatLayout layout = layout_of_replicas(plan, place, bucket_bytes);
  Predicted predicted = predict_zero_1(plan, place, bucket_bytes);
  Figure& reduced = predicted.bytes_sent[Operation::reduce_scatter];
  reduced = *reduced * plan.batch.microbatches;

  DefaultCollectives collectives{plan, place, Axis::dp_cp};
  std::int64_t scratch = 0;
  bool rings = true;
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    scratch = std::max(scratch, collectives.scratch(Operation::reduce_scatter, bucket.elements));
    rings = rings && collectives.is_ring(Operation::reduce_scatter, bucket.elements);
  }
  const StateBytes each = state_bytes(plan);
  const std::int64_t trained = layout.elements(false);
  const std::int64_t shards = zero_states(2, trained, layout.shards(), each).gradients;
  Figure& gradients = predicted.peak_bytes[MemoryCategory::gradients];
  gradients = *gradients + shards + each.gradient * (gradients_in_full(layout) - trained);
  predicted.peak_bytes[MemoryCategory::communication] = each.gradient * scratch;
  predicted.sum_order = {};
  if (rings) predicted.sum_order = [layout] { return ring_order_by_microbatch(layout); };
  return predicted;
}

}  // namespace lockstep
