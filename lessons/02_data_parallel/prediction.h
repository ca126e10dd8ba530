#pragma once

#include "core/comm/algorithms.h"
#include "core/comm/choose_algorithm.h"
#include "core/plan/footprint.h"
#include "core/plan/prediction.h"
#include "lessons/01_collectives/prediction.h"
#include "lessons/02_data_parallel/ring_order.h"

namespace lockstep {

/// Returns the layout of a rank's parameters, which is the same on all its replicas.
inline FlatLayout layout_of_replicas(const Plan& plan, const Place& place,
                                     std::int64_t bucket_bytes) {
  return {plan.units(place, place.only_stage()), place.size(Axis::dp_cp), bucket_bytes};
}

/// Bytes per parameter value, and per gradient.
inline std::int64_t width_of(const Plan& plan) {
  return static_cast<std::int64_t>(size_of(plan.model().dtype));
}

/// How the ranks of an axis sum elements of the model's type, if they do not choose an algorithm.
inline Algorithm all_reduce_algorithm(const Plan& plan, const Place& place, Axis axis,
                                      std::int64_t elements) {
  if (!plan.modelled) return Algorithm::ring;
  return default_algorithm(width_of(plan) * elements, plan.mesh.group(place.rank, axis),
                           plan.modelled->cluster, plan.on_meta);
}

/// Elements that a rank sends in an all-reduce with the other ranks of an axis: in a ring, all
/// chunks except one in each half, in total 2 (n-1)/n of the elements if n divides them.
inline std::int64_t all_reduce_sends(const Plan& plan, const Place& place, Axis axis,
                                     std::int64_t elements) {
  const std::vector<int> ranks = plan.mesh.group(place.rank, axis);
  const int per_node =
      plan.modelled ? members_per_node(ranks, plan.modelled->cluster.ranks_per_node) : 0;
  return elements_sent(all_reduce_algorithm(plan, place, axis, elements), elements,
                       place.size(axis), place.coordinate(axis), per_node);
}

/// Elements of scratch memory that a ring's reduction among n ranks needs for incoming data.
inline std::int64_t ring_scratch(std::int64_t elements, const Plan& plan, int n) {
  if (n == 1 || plan.collectives != Collectives::built_in) return 0;
  return all_reduce_scratch(Algorithm::ring, elements, n, plan.receives_combine);
}

/// Elements that one rank sends to sum the gradients of `layout`, and the scratch memory that this
/// takes.
struct GradientSums {
  std::int64_t sent = 0;
  std::int64_t scratch = 0;
  bool rings = true;  ///< whether all are summed by rings
};
inline GradientSums gradient_sums(const Plan& plan, const Place& place, const FlatLayout& layout,
                                  GradientSync sync) {
  const int n = place.size(Axis::dp_cp);
  GradientSums sums;
  const auto sends = [&](std::int64_t elements) {
    if (all_reduce_algorithm(plan, place, Axis::dp_cp, elements) != Algorithm::ring)
      sums.rings = false;
    return all_reduce_sends(plan, place, Axis::dp_cp, elements);
  };
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    if (sync == GradientSync::none) {
      for (const FlatLayout::Slot& slot : bucket.slots) {
        sums.sent += sends(slot.elements());
        // One tensor at a time.
        sums.scratch = std::max(sums.scratch, ring_scratch(slot.elements(), plan, n));
      }
    } else {
      sums.sent += sends(bucket.elements);
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
  if (sums.rings) predicted.sum_order = [layout, sync] { return ring_order(layout, sync); };
  return predicted;
}

}  // namespace lockstep
