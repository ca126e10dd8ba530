#pragma once

#include <map>
#include <vector>

#include "core/comm/choose_algorithm.h"
#include "core/comm/run_collective.h"
#include "core/plan/footprint.h"
#include "core/plan/prediction.h"
#include "lessons/01_collectives/elements_sent.h"
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

/// The all-reduces, reduce-scatters and all-gathers of a rank with the other ranks of an axis, with
/// their default algorithms, for elements of the model's type.
class DefaultCollectives {
 public:
  DefaultCollectives(const Plan& plan, const Place& place, Axis axis)
      : plan_(plan), size_(place.size(axis)), rank_(place.coordinate(axis)) {
    if (plan.modelled && plan.modelled->cluster.library_collectives)
      ranks_ = plan.mesh.group(place.rank, axis);
  }

  bool is_ring(Operation operation, std::int64_t elements) {
    return of(operation, elements).algorithm == Algorithm::ring;
  }
  /// Elements that the rank sends in an all-reduce: in a ring, all chunks except one in each half,
  /// in total 2 (n-1)/n of the elements if n divides them.
  std::int64_t all_reduce_sends(std::int64_t elements) {
    const Collective sum = of(Operation::all_reduce, elements);
    return elements_sent(sum.algorithm, elements, size_, rank_, sum.per_node);
  }
  /// Elements of scratch memory for the incoming data of an all-reduce or a reduce-scatter.
  std::int64_t scratch(Operation operation, std::int64_t elements) {
    if (size_ == 1 || plan_.collectives != Collectives::built_in) return 0;
    const Collective sum = of(operation, elements);
    return all_reduce_scratch(sum.algorithm, elements, size_, plan_.receives_combine, sum.per_node,
                              plan_.model().dtype);
  }

 private:
  Collective of(Operation operation, std::int64_t elements) {
    if (ranks_.empty()) return {};
    const auto [found, is_new] = known_.try_emplace({operation, elements});
    if (is_new)
      found->second =
          with_default_algorithm({.operation = operation,
                                  .dtype = plan_.model().dtype,
                                  .elements = elements,
                                  .choice = plan_.on_meta ? Collective::Choice::by_cost_or_switch
                                                          : Collective::Choice::by_cost},
                                 ranks_, plan_.modelled->cluster);
    return found->second;
  }

  const Plan& plan_;
  int size_, rank_;
  std::vector<int> ranks_;                                          ///< empty if all are rings
  std::map<std::pair<Operation, std::int64_t>, Collective> known_;  ///< layers repeat sizes
};

/// Elements that one rank sends to sum the gradients of `layout`, and the scratch memory that this
/// takes.
struct GradientSums {
  std::int64_t sent = 0;
  std::int64_t scratch = 0;
  bool rings = true;  ///< whether all are summed by rings
};
inline GradientSums gradient_sums(const Plan& plan, const Place& place, const FlatLayout& layout,
                                  GradientSync sync) {
  GradientSums sums;
  DefaultCollectives collectives{plan, place, Axis::dp_cp};
  const auto sends = [&](std::int64_t elements) {
    if (!collectives.is_ring(Operation::all_reduce, elements)) sums.rings = false;
    return collectives.all_reduce_sends(elements);
  };
  for (const FlatLayout::Bucket& bucket : layout.buckets()) {
    if (bucket.frozen) continue;
    if (sync == GradientSync::none) {
      for (const FlatLayout::Slot& slot : bucket.slots) {
        sums.sent += sends(slot.elements());
        // One tensor at a time.
        sums.scratch =
            std::max(sums.scratch, collectives.scratch(Operation::all_reduce, slot.elements()));
      }
    } else {
      sums.sent += sends(bucket.elements);
      sums.scratch += collectives.scratch(Operation::all_reduce, bucket.elements);  // all at once
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
