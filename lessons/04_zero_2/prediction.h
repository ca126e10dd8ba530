#pragma once

#include "lessons/03_zero_1/prediction.h"

namespace lockstep {

/// As data parallelism, but each microbatch's gradients are summed over ranks.
inline SumOrder scattered_order(const FlatLayout& layout) {
  SumOrder order = ring_order(layout, WhenSummed::overlap);
  order.every_microbatch = true;
  return order;
}

/// One step of one rank. Gradients are this rank's shards, and whole the bucket that is filled and
/// the one before it, which is on its way. Every microbatch's are reduced.
inline Predicted predict_zero_2(const Rank& rank, const FlatLayout& layout,
                                const Options& options) {
  Predicted predicted = predict_zero_1(rank, layout, options);
  predicted.bytes_sent["reduce_scatter"] *= options.microbatches.front();

  std::int64_t two = 0, before = 0, scratch = 0;
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    two = std::max(two, before + bucket.elements);
    before = bucket.elements;
    scratch = std::max(scratch, ring_scratch(bucket.elements, rank));
  }
  const StateBytes each = state_bytes(options);
  const std::int64_t trained = layout.elements(false);
  const std::int64_t shards = zero_states(2, trained, rank.count, each).gradients;
  predicted.peak_bytes["gradients"] += shards + each.gradient * (two - trained);
  predicted.peak_bytes["communication"] = each.gradient * scratch;
  return predicted;
}

}  // namespace lockstep
