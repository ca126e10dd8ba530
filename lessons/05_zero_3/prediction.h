#pragma once

#include "lessons/04_zero_2/prediction.h"
#include "lessons/05_zero_3/zero_3.h"

namespace lockstep {

/// Predicts one step of one rank. Parameter memory holds this rank's shards and, in full, the
/// buckets in use and those being prefetched. All parameters are unsharded for the forward pass and
/// again for the backward pass, whose prefetching already starts at the end of the forward pass. A
/// tied token table is also unsharded for the head.
inline Predicted predict_zero_3(const Plan& plan, const Place& place, std::int64_t bucket_bytes,
                                int prefetch) {
  const FlatLayout layout = layout_of_replicas(plan, place, bucket_bytes);
  const auto units = plan.units(place, place.only_stage());
  Predicted predicted = predict_zero_2(plan, place, bucket_bytes);
  std::vector<std::int64_t> sizes;
  std::int64_t all_gathered = 0;
  for (const auto& use : ShardedParameters::uses_of(units, layout)) {
    sizes.push_back(0);
    for (const std::size_t b : use.buckets) {
      sizes.back() += layout.buckets()[b].elements;
      all_gathered += ring_half_sends(layout.buckets()[b].elements, layout.shards());
    }
  }
  std::int64_t most = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t end = std::min(i + static_cast<std::size_t>(prefetch) + 1, sizes.size());
    std::int64_t here = 0;
    for (std::size_t k = i; k < end; ++k) here += sizes[k];
    most = std::max(most, here);
  }
  const StateBytes each = state_bytes(plan);
  const std::int64_t shards = zero_states(3, layout.elements(), layout.shards(), each).parameters;
  predicted.peak_bytes[MemoryCategory::parameters] = shards + each.value * most;
  predicted.bytes_sent[Operation::all_gather] = each.value * all_gathered * plan.batch.microbatches;
  return predicted;
}

}  // namespace lockstep
