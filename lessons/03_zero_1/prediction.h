#pragma once

#include "lessons/02_data_parallel/prediction.h"
#include "lessons/03_zero_1/zero_memory.h"

namespace lockstep {

/// What a ring reduce-scatter, or all-gather, of a bucket sends from one rank: all shards but one,
/// (N-1)/N of the bucket's bytes.
inline std::int64_t ring_half_bytes(std::int64_t elements, int ranks) {
  return 4 * (elements - elements / ranks);
}

/// One step of one rank. The optimizer has no states for padding.
inline Predicted predict_zero_1(const Rank& rank, const FlatLayout& layout,
                                const Options& options) {
  Predicted predicted = predict_data_parallel(rank, layout, options, Overlap::overlap);
  const std::int64_t trained = ring_half_bytes(layout.elements(false), rank.count);
  predicted.bytes_sent = {{"reduce_scatter", trained}, {"all_gather", trained}};
  const ModelStates states = zero_states(1, layout.elements(false), rank.count);
  const std::int64_t frozen = layout.elements() - layout.elements(false);
  predicted.peak_bytes["parameters"] = states.parameters + f32_states.value * frozen;
  predicted.peak_bytes["optimizer"] = f32_states.optimizer * layout.owned(rank.id);
  return predicted;
}

}  // namespace lockstep
