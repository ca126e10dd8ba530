#pragma once

#include "lessons/02_data_parallel/prediction.h"
#include "lessons/03_zero_1/zero_memory.h"

namespace lockstep {

/// What a ring reduce-scatter, or all-gather, of a bucket sends from one rank, in elements: all
/// shards but one, (N-1)/N of the bucket.
inline std::int64_t ring_half_sends(std::int64_t elements, int ranks) {
  return elements - elements / ranks;
}

inline StateBytes state_bytes(const Options& options) {
  return options.model.dtype == DType::f32 ? f32_states : mixed_states;
}

/// One step of one rank. The optimizer has no states for padding.
inline Predicted predict_zero_1(const Rank& rank, const FlatLayout& layout,
                                const Options& options) {
  Predicted predicted = predict_data_parallel(rank, layout, options, WhenSummed::overlap);
  const std::int64_t trained = layout.elements(false), frozen = layout.elements() - trained;
  const std::int64_t half = width_of(options) * ring_half_sends(trained, rank.count);
  predicted.bytes_sent = {{"reduce_scatter", half}, {"all_gather", half}};
  const StateBytes each = state_bytes(options);
  predicted.peak_bytes["parameters"] =
      zero_states(1, trained, rank.count, each).parameters + each.value * frozen;
  predicted.peak_bytes["optimizer"] = each.optimizer * layout.owned(rank.id);
  return predicted;
}

}  // namespace lockstep
