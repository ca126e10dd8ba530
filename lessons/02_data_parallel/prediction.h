#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/footprint.h"
#include "core/run/options.h"
#include "core/run/prediction.h"
#include "core/run/rank.h"
#include "core/run/sum_order.h"
#include "lessons/02_data_parallel/data_parallel.h"

namespace lockstep {

/// A lesson in which every rank is a replica and has its share of the batch: 24 sequences can be
/// cut into 1, 2, 3, 4 and 8. All of them take the same flags, and promise the same parity.
inline LessonInfo of_replicas(const std::string& name, const std::string& question) {
  return {.name = name,
          .question = question,
          .batch = 24,
          .cluster = "ethernet",
          .microbatches = {1},
          .freezes = true,
          .narrow = true,
          .axis = "dp",
          .tolerance = {.loss = 1e-6, .parameter = 1e-5},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

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
  if (options.clock.times().any())
    throw UsageError(
        "--time: what a whole backward takes does not say when each layer's gradients are ready; "
        "leave it out, and let --cluster say what things cost");
  if (options.optimizer.clip > 0)
    throw UsageError(
        fmt::format("--clip {}: this lesson does not clip; leave it out", options.optimizer.clip));
}

/// What a ring all-reduce of n elements sends from one rank, in elements: in each half all chunks
/// but one, together 2 (N-1)/N n where N divides n.
inline std::int64_t ring_all_reduce_sends(std::int64_t elements, const Rank& rank) {
  const auto chunk = [&](int i) {
    return elements / rank.count + (i < elements % rank.count ? 1 : 0);
  };
  return 2 * elements - chunk(rank.id) - chunk((rank.id + 1) % rank.count);
}

/// What a ring's reductions need for what comes in before it is added, in elements.
inline std::int64_t ring_scratch(std::int64_t elements, const Rank& rank) {
  if (rank.count == 1 || rank.endpoint.collectives != Collectives::ring) return 0;
  return all_reduce_scratch(Algorithm::ring, elements, rank.count, rank.transport->combines());
}

/// Bytes of a value, or of a gradient.
inline std::int64_t width_of(const Options& options) {
  return static_cast<std::int64_t>(size_of(options.model.dtype));
}

/// A ring's sum of chunk i begins with member i + 1: the order in which gradients are added.
inline SumOrder ring_order(const FlatLayout& layout, WhenSummed overlap) {
  SumOrder order;
  const int n = layout.shards();
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    for (int i = 0; i < n; ++i) {
      const int begin = (i + 1) % n;
      if (overlap != WhenSummed::none) {
        for (const FlatLayout::Piece& piece : layout.shard(bucket, i))
          order.segments.push_back(
              {piece.parameter->order, piece.in_parameter, piece.elements, begin});
        continue;
      }
      for (const FlatLayout::Slot& slot : bucket.slots) {  // each tensor is cut by itself
        const std::int64_t all = slot.parameter->shape.elements(), more = all % n;
        const std::int64_t first = i * (all / n) + std::min<std::int64_t>(i, more);
        order.segments.push_back(
            {slot.parameter->order, first, all / n + (i < more ? 1 : 0), begin});
      }
    }
  }
  return order;
}

/// One step of one rank: gradients are sent as they lie in the buckets, padding included; memory is
/// that of one device, and does not shrink with N.
inline Predicted predict_data_parallel(const Rank& rank, const FlatLayout& layout,
                                       const Options& options, WhenSummed overlap) {
  Predicted predicted;
  std::int64_t sent = 0, scratch = 0;
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    if (overlap == WhenSummed::none) {
      for (const FlatLayout::Slot& slot : bucket.slots) {
        const std::int64_t elements = slot.parameter->shape.elements();
        sent += ring_all_reduce_sends(elements, rank);
        scratch = std::max(scratch, ring_scratch(elements, rank));  // one after another
      }
    } else {
      sent += ring_all_reduce_sends(bucket.elements, rank);
      scratch += ring_scratch(bucket.elements, rank);  // all at once
    }
  }
  const std::int64_t width = width_of(options);
  predicted.bytes_sent["all_reduce"] = width * sent;

  const int sequences = options.batch / options.dp / options.microbatches.front();
  const Footprint footprint{options.model, StageLayers::whole(options.model), sequences};
  const std::int64_t tied = footprint.gradients - width * options.model.trained_count();
  predicted.peak_bytes = {{"parameters", footprint.parameters},
                          {"gradients", width * layout.elements(false) + tied},
                          {"optimizer", footprint.optimizer},
                          {"activations", footprint.peak(1)},
                          {"communication", width * scratch}};
  return predicted;
}

}  // namespace lockstep
