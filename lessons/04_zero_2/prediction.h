#pragma once

#include "lessons/03_zero_1/prediction.h"

namespace lockstep {

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
    scratch = std::max(scratch, ring_scratch_bytes(bucket.elements, rank));
  }
  const std::int64_t whole = f32_states.gradient * layout.elements(false);
  const std::int64_t shards = zero_states(2, layout.elements(false), rank.count).gradients;
  predicted.peak_bytes["gradients"] += shards - whole + f32_states.gradient * two;
  predicted.peak_bytes["communication"] = scratch;
  return predicted;
}

}  // namespace lockstep
