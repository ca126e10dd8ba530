#pragma once

#include "lessons/04_zero_2/prediction.h"
#include "lessons/05_zero_3/zero_3.h"

namespace lockstep {

/// One step of one rank. Parameters are this rank's shards, and whole what is in use and what is
/// prefetched. Everything is gathered for forward and for backward, a tied table also for the head.
inline Predicted predict_zero_3(const Rank& rank, const Gpt& model, const FlatLayout& layout,
                                const Options& options, int prefetch) {
  Predicted predicted = predict_zero_2(rank, layout, options);
  const auto uses = GatheredParameters::uses_of(model, layout);
  std::vector<std::int64_t> sizes;
  std::int64_t gathered = 0;
  for (const auto& use : uses) {
    sizes.push_back(0);
    for (const std::size_t b : use.buckets) {
      sizes.back() += layout.buckets()[b].elements;
      gathered += ring_half_bytes(layout.buckets()[b].elements, rank.count);
    }
  }
  std::int64_t most = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t here = 0;
    for (std::size_t k = i; k < sizes.size() && k <= i + static_cast<std::size_t>(prefetch); ++k)
      here += sizes[k];
    most = std::max(most, here);
  }
  const std::int64_t shards = zero_states(3, layout.elements(), rank.count).parameters;
  predicted.peak_bytes["parameters"] = shards + f32_states.value * most;
  predicted.bytes_sent["all_gather"] = gathered * options.microbatches.front();
  return predicted;
}

}  // namespace lockstep
