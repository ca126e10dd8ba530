#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/footprint.h"
#include "core/run/options.h"
#include "core/run/prediction.h"
#include "core/run/rank.h"
#include "lessons/02_data_parallel/data_parallel.h"

namespace lockstep {

/// Throws UsageError for what neither data parallelism nor ZeRO can do.
inline void check_replicas(const Options& options, int bucket_bytes) {
  if (bucket_bytes < 1)
    throw UsageError(
        fmt::format("--bucket {}: a bucket has at least one layer's gradients; wants at least 1 "
                    "byte, such as --bucket 200000",
                    bucket_bytes));
  if (options.model.trained_count() < options.ranks)
    throw UsageError(
        fmt::format("--ranks {}: the model has {} parameters to train, fewer than one for each "
                    "rank; use at most {} ranks",
                    options.ranks, options.model.trained_count(), options.model.trained_count()));
  if (options.optimizer.clip > 0)
    throw UsageError(
        fmt::format("--clip {}: this lesson does not clip; leave it out", options.optimizer.clip));
}

/// What a ring all-reduce of n elements sends from one rank, in bytes: in each half all chunks but
/// one, together 2 (N-1)/N n where N divides n.
inline std::int64_t ring_all_reduce_bytes(std::int64_t elements, int rank, int ranks) {
  const auto chunk = [&](int i) { return elements / ranks + (i < elements % ranks ? 1 : 0); };
  return 4 * (2 * elements - chunk(rank) - chunk((rank + 1) % ranks));
}

/// Bytes that a ring's reductions need for what comes in before it is added, for one of n elements.
inline std::int64_t ring_scratch_bytes(std::int64_t elements, const Rank& rank) {
  if (rank.count == 1 || rank.endpoint.collectives != Collectives::ring) return 0;
  return 4 * all_reduce_scratch(Algorithm::ring, elements, rank.count, rank.transport->combines());
}

/// One step of one rank: gradients are sent as they lie in the buckets, padding included; memory is
/// that of one device, and does not shrink with N.
inline Predicted predict_data_parallel(const Rank& rank, const FlatLayout& layout,
                                       const Options& options, Overlap overlap) {
  Predicted predicted;
  std::int64_t sent = 0, scratch = 0;
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    if (overlap == Overlap::none) {
      for (const FlatLayout::Slot& slot : bucket.slots) {
        const std::int64_t elements = slot.parameter->shape.elements();
        sent += ring_all_reduce_bytes(elements, rank.id, rank.count);
        scratch = std::max(scratch, ring_scratch_bytes(elements, rank));  // one after another
      }
    } else {
      sent += ring_all_reduce_bytes(bucket.elements, rank.id, rank.count);
      scratch += ring_scratch_bytes(bucket.elements, rank);  // all at once
    }
  }
  predicted.bytes_sent["all_reduce"] = sent;

  const int sequences = options.batch / options.dp / options.microbatches.front();
  const Footprint footprint{options.model, StageLayers::whole(options.model), sequences};
  const std::int64_t tied = footprint.gradients - 4 * options.model.trained_count();
  predicted.peak_bytes = {{"parameters", footprint.parameters},
                          {"gradients", 4 * layout.elements(false) + tied},
                          {"optimizer", footprint.optimizer},
                          {"activations", footprint.peak(1)},
                          {"communication", scratch}};
  return predicted;
}

}  // namespace lockstep
