#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/comm/algorithms.h"
#include "core/plan/footprint.h"
#include "core/plan/prediction.h"
#include "core/run/options/lesson_info.h"
#include "core/run/options/options.h"
#include "core/run/report/sum_order.h"
#include "lessons/02_data_parallel/data_parallel.h"

namespace lockstep {

/// Settings shared by all lessons in which every rank is a replica with its share of the batch: the
/// same flags and the same parity tolerance. 24 sequences divide evenly among 1, 2, 3, 4 and 8
/// ranks.
inline LessonInfo of_replicas(const std::string& name, const std::string& question) {
  return {.name = name,
          .question = question,
          .batch = 24,
          .cluster = "ethernet",
          .microbatches = {1},
          .freezes = true,
          .narrow = true,
          .axes = {Axis::dp},
          .tolerance = {.loss = 1e-6, .parameter = 1e-5},
          .narrow_tolerance = {.loss = 1e-2, .parameter = 1e-1}};
}

/// Throws UsageError for options that neither data parallelism nor ZeRO supports.
inline void check_replicas(const Options& options, int bucket_bytes) {
  if (bucket_bytes < 1)
    throw UsageError(
        fmt::format("--bucket {}: a bucket has at least one layer's gradients; wants at least 1 "
                    "byte, such as --bucket 200000",
                    bucket_bytes));
  if (options.run.model.trained_count() < options.run.dp)
    throw UsageError(fmt::format(
        "--ranks {}: the model has {} parameters to train, fewer than one for each "
        "rank; use at most {} ranks",
        options.run.ranks, options.run.model.trained_count(), options.run.model.trained_count()));
  if (options.platform.clock.times().any())
    throw UsageError(
        "--time: what a whole backward takes does not say when each layer's gradients are ready; "
        "leave it out, and let --cluster say what things cost");
  if (options.run.optimizer.clip > 0)
    throw UsageError(fmt::format("--clip {}: this lesson does not clip; leave it out",
                                 options.run.optimizer.clip));
}

/// Returns the buckets of a rank's parameters, which its replicas share.
inline FlatLayout layout_of_replicas(const Plan& plan, const Place& place,
                                     std::int64_t bucket_bytes) {
  return {plan.units(place, place.only_stage()), place.size(Axis::dp), bucket_bytes};
}

/// Elements that one replica sends in a ring all-reduce of n elements: all chunks but one in each
/// half, 2 (N-1)/N n in total if N divides n.
inline std::int64_t ring_all_reduce_sends(std::int64_t elements, const Place& place) {
  const int n = place.size(Axis::dp), i = place.coordinate(Axis::dp);
  const auto chunk = [&](int which) { return elements / n + (which < elements % n ? 1 : 0); };
  return 2 * elements - chunk(i) - chunk((i + 1) % n);
}

/// Elements of buffer that a ring's reductions need for incoming data before it is added.
inline std::int64_t ring_scratch(std::int64_t elements, const Plan& plan) {
  const int n = plan.mesh.size(Axis::dp);
  if (n == 1 || plan.collectives != Collectives::built_in) return 0;
  return all_reduce_scratch(Algorithm::ring, elements, n, plan.receives_combine);
}

/// Bytes per parameter value, and per gradient.
inline std::int64_t width_of(const Plan& plan) {
  return static_cast<std::int64_t>(size_of(plan.model().dtype));
}

/// The order in which a ring adds gradients: the sum of chunk i begins with member i + 1.
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
              {bucket.slots[piece.slot].parameter.order, FlatLayout::slice(bucket, piece), begin});
        continue;
      }
      for (const FlatLayout::Slot& slot : bucket.slots) {  // each tensor is cut separately
        const std::int64_t all = slot.elements(), more = all % n;
        const std::int64_t first = i * (all / n) + std::min<std::int64_t>(i, more);
        order.segments.push_back({slot.parameter.order,
                                  slot.parameter.slice.range(first, all / n + (i < more ? 1 : 0)),
                                  begin});
      }
    }
  }
  return order;
}

/// Predicts one step of one rank. Whole buckets are sent, including their padding. Memory is that
/// of one device and does not shrink with N.
inline Predicted predict_data_parallel(const Plan& plan, const Place& place,
                                       const FlatLayout& layout, WhenSummed overlap) {
  Predicted predicted;
  std::int64_t sent = 0, scratch = 0;
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    if (overlap == WhenSummed::none) {
      for (const FlatLayout::Slot& slot : bucket.slots) {
        sent += ring_all_reduce_sends(slot.elements(), place);
        scratch = std::max(scratch, ring_scratch(slot.elements(), plan));  // one at a time
      }
    } else {
      sent += ring_all_reduce_sends(bucket.elements, place);
      scratch += ring_scratch(bucket.elements, plan);  // all at once
    }
  }
  const std::int64_t width = width_of(plan);
  predicted.bytes_sent[Operation::all_reduce] = width * sent;

  const Footprint footprint{plan.model(), plan.layers_of(place.only_stage()),
                            plan.microbatch_size(plan.batch.microbatches)};
  const std::int64_t tied = footprint.gradients - width * layout.used(false);
  predicted.peak_bytes[MemoryCategory::parameters] = footprint.parameters;
  predicted.peak_bytes[MemoryCategory::gradients] = width * layout.elements(false) + tied;
  predicted.peak_bytes[MemoryCategory::optimizer] = footprint.optimizer;
  predicted.peak_bytes[MemoryCategory::activations] = footprint.peak(1);
  predicted.peak_bytes[MemoryCategory::communication] = width * scratch;
  return predicted;
}

inline Predicted predict_data_parallel(const Plan& plan, const Place& place, WhenSummed overlap,
                                       std::int64_t bucket_bytes) {
  return predict_data_parallel(plan, place, layout_of_replicas(plan, place, bucket_bytes), overlap);
}

}  // namespace lockstep
