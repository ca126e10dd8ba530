#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/footprint.h"
#include "core/run/options.h"
#include "core/run/prediction.h"
#include "lessons/02_data_parallel/data_parallel.h"

namespace lockstep {

/// The names of the run's phases: all of them, or the one that was asked for.
inline std::vector<std::string> overlap_names(const std::string& only) {
  return only == "all" ? std::vector<std::string>{"none", "bucket", "overlap"}
                       : std::vector<std::string>{only};
}

inline Overlap overlap_of(const std::string& name) {
  return name == "none" ? Overlap::none : name == "bucket" ? Overlap::bucket : Overlap::overlap;
}

/// Throws UsageError for what data parallelism can't do.
inline void check_data_parallel(const Options& options, int bucket_bytes) {
  if (bucket_bytes < 1)
    throw UsageError(
        fmt::format("--bucket {}: a bucket has at least one layer's gradients; wants at least 1 "
                    "byte, such as --bucket 200000",
                    bucket_bytes));
  if (options.optimizer.clip > 0)
    throw UsageError(
        fmt::format("--clip {}: this lesson does not clip; leave it out", options.optimizer.clip));
}

/// What a ring all-reduce of n elements sends from one rank, in bytes: in each half all chunks but
/// one, 2 (N-1)/N n where N divides n.
inline std::int64_t ring_all_reduce_bytes(std::int64_t elements, int rank, int ranks) {
  const auto chunk = [&](int i) { return elements / ranks + (i < elements % ranks ? 1 : 0); };
  return 4 * (2 * elements - chunk(rank) - chunk((rank + 1) % ranks));
}

/// One step of one rank: gradients are sent as they lie in the buckets, padding included; memory is
/// that of one device and does not shrink with N.
inline Predicted predict_data_parallel(const Group& replicas, const FlatLayout& layout,
                                       const Options& options, Overlap overlap) {
  Predicted predicted;
  std::int64_t& sent = predicted.bytes_sent["all_reduce"];
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    if (overlap != Overlap::none)
      sent += ring_all_reduce_bytes(bucket.elements, replicas.rank(), replicas.size());
    else
      for (const FlatLayout::Slot& slot : bucket.slots)
        sent += ring_all_reduce_bytes(slot.parameter->shape.elements(), replicas.rank(),
                                      replicas.size());
  }
  const int sequences = options.batch / options.dp / options.microbatches.front();
  const Footprint footprint{options.model, StageLayers::whole(options.model), sequences};
  const std::int64_t tied = footprint.gradients - footprint.parameters;
  predicted.peak_bytes = {{"parameters", footprint.parameters},
                          {"gradients", 4 * layout.elements(false) + tied},
                          {"optimizer", footprint.optimizer},
                          {"activations", footprint.peak(1)}};
  return predicted;
}

}  // namespace lockstep
