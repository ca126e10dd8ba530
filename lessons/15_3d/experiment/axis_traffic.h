#pragma once

#include <fmt/format.h>

#include "core/base/available_memory.h"
#include "lessons/15_3d/prediction.h"

namespace lockstep {

/// Bytes that all ranks send along one axis per step.
struct AxisTraffic {
  std::int64_t within = 0;   ///< to ranks of the same node
  std::int64_t between = 0;  ///< to ranks of other nodes
};

/// Returns the predicted traffic of the layers (tp), the stages (pp) or the gradients (dp). A
/// ring's member sends everything to the next member, and a stage to its two neighbours.
inline AxisTraffic axis_traffic(const Plan& plan, std::int64_t bucket_bytes, Axis axis) {
  AxisTraffic traffic;
  const int m = plan.batch.microbatches;
  const Cluster& cluster = plan.modelled->cluster;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const Place place = plan.place(rank);
    const std::vector<int>& group = place.group(axis);
    const int n = place.size(axis), me = place.coordinate(axis);
    const auto send = [&](int to, std::int64_t bytes) {
      const Link& link = cluster.link(rank, group[static_cast<std::size_t>(to)]);
      (&link == &cluster.within ? traffic.within : traffic.between) += bytes;
    };
    if (n == 1) continue;
    if (axis == Axis::pp) {
      const std::int64_t bytes = m * plan.boundary(m).bytes();
      if (me + 1 < n) send(me + 1, bytes);
      if (me > 0) send(me - 1, bytes);
    } else if (axis == Axis::tp) {
      const TensorFootprint stage{plan, place, place.only_stage(), m};
      const std::int64_t elements = tensor_sends(stage, place, plan.model().hidden);
      send((me + 1) % n, m * (width_of(plan) * elements + loss_sends(stage)));
    } else {
      std::int64_t elements = 0;
      const FlatLayout layout = layout_of_replicas(plan, place, bucket_bytes);
      for (const FlatLayout::Bucket& bucket : layout.buckets())
        elements += ring_all_reduce_sends(bucket.elements, place);
      send((me + 1) % n, width_of(plan) * elements);
    }
  }
  return traffic;
}

/// Prints where each axis's messages travel on the modelled cluster.
inline void print_axis_traffic(const Plan& plan, int bucket_bytes) {
  if (!plan.modelled) return;
  fmt::print("\n  sent per step, all ranks   within nodes   between nodes\n");
  for (const Axis axis : {Axis::tp, Axis::dp, Axis::pp}) {
    const AxisTraffic traffic = axis_traffic(plan, bucket_bytes, axis);
    fmt::print("  {:<2} {:>22} {:>14} {:>15}\n", name_of(axis),
               text_of_bytes(static_cast<double>(traffic.within + traffic.between)),
               text_of_bytes(static_cast<double>(traffic.within)),
               text_of_bytes(static_cast<double>(traffic.between)));
  }
}

}  // namespace lockstep
