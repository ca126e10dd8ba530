#pragma once

#include "core/comm/algorithms.h"
#include "core/plan/footprint.h"
#include "core/plan/prediction.h"
#include "lessons/02_data_parallel/ring_order.h"

namespace lockstep {

/// Returns the layout of a rank's parameters, which is the same on all its replicas.
inline FlatLayout layout_of_replicas(const Plan& plan, const Place& place,
                                     std::int64_t bucket_bytes) {
  return {plan.units(place, place.only_stage()), place.size(Axis::dp_cp), bucket_bytes};
}

/// Elements that member i of n ranks sends in a ring all-reduce: all chunks except one in
/// each half, in total 2 (n-1)/n of the elements if n divides them.
inline std::int64_t ring_all_reduce_sends(std::int64_t elements, int n, int i) {
  const auto chunk = [&](int which) { return elements / n + (which < elements % n ? 1 : 0); };
  return 2 * elements - chunk(i) - chunk((i + 1) % n);
}

/// Elements of scratch memory that a ring's reduction among n ranks needs for incoming data.
inline std::int64_t ring_scratch(std::int64_t elements, const Plan& plan, int n) {
  if (n == 1 || plan.collectives != Collectives::built_in) return 0;
  return all_reduce_scratch(Algorithm::ring, elements, n, plan.receives_combine);
}

/// Bytes per parameter value, and per gradient.
inline std::int64_t width_of(const Plan& plan) {
  return static_cast<std::int64_t>(size_of(plan.model().dtype));
}

/// Elements that one rank sends to sum the gradients of `layout`, and the scratch memory that this
/// takes.
struct GradientSums {
  std::int64_t sent = 0;
  std::int64_t scratch = 0;
};
inline GradientSums gradient_sums(const Plan& plan, const Place& place, const FlatLayout& layout,
                                  GradientSync sync) {
  const int n = place.size(Axis::dp_cp), i = place.coordinate(Axis::dp_cp);
  GradientSums sums;
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    if (sync == GradientSync::none) {
      for (const FlatLayout::Slot& slot : bucket.slots) {
        sums.sent += ring_all_reduce_sends(slot.elements(), n, i);
        // One tensor at a time.
        sums.scratch = std::max(sums.scratch, ring_scratch(slot.elements(), plan, n));
      }
    } else {
      sums.sent += ring_all_reduce_sends(bucket.elements, n, i);
      sums.scratch += ring_scratch(bucket.elements, plan, n);  // all at once
    }
  }
  return sums;
}

/// Predicts one step of one rank. Buckets are sent with their padding. Each rank needs as much
/// memory for model states as a single device that trains alone (Footprint), however many replicas
/// there are.
inline Predicted predict_data_parallel(const Plan& plan, const Place& place, GradientSync sync,
                                       std::int64_t bucket_bytes) {
  const FlatLayout layout = layout_of_replicas(plan, place, bucket_bytes);
  const Footprint footprint{plan.model(), StageLayers::whole(plan.model()),
                            plan.microbatch_size(plan.batch.microbatches)};
  Predicted predicted;
  const GradientSums sums = gradient_sums(plan, place, layout, sync);
  const std::int64_t width = width_of(plan);
  predicted.bytes_sent[Operation::all_reduce] = width * sums.sent;

  const std::int64_t tied = footprint.gradients - width * layout.used(false);
  predicted.peak_bytes[MemoryCategory::parameters] = footprint.parameters;
  predicted.peak_bytes[MemoryCategory::gradients] = width * layout.elements(false) + tied;
  predicted.peak_bytes[MemoryCategory::optimizer] = footprint.optimizer;
  predicted.peak_bytes[MemoryCategory::activations] = footprint.peak(1);
  predicted.peak_bytes[MemoryCategory::communication] = width * sums.scratch;
  predicted.sum_order = [layout, sync] { return ring_order(layout, sync); };
  return predicted;
}

}  // namespace lockstep
