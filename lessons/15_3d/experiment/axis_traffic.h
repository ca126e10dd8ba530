#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "core/base/available_memory.h"
#include "core/plan/ranks_of_model.h"
#include "lessons/06_tensor_parallel/experiment/slices_grid.h"
#include "lessons/15_3d/prediction.h"

namespace lockstep {

/// Bytes that all ranks send along one axis per step.
struct AxisTraffic {
  std::int64_t within = 0;   ///< to ranks of the same node
  std::int64_t between = 0;  ///< to ranks of other nodes
};

/// Returns the predicted traffic of the layers (tp), the stages (pp) or the replicas (dp). In a
/// ring, each rank sends all its bytes to the next rank. A stage sends to the stage after it and to
/// the stage before it.
inline AxisTraffic axis_traffic(const Plan& plan, const Composition& chosen, Axis axis) {
  AxisTraffic traffic;
  const int m = plan.batch.microbatches;
  const Cluster& cluster = plan.modelled->cluster;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const Place place = plan.place(rank);
    const auto send = [&](const std::vector<int>& group, int to, std::int64_t bytes) {
      const Link& link = cluster.link(rank, group[static_cast<std::size_t>(to)]);
      (&link == &cluster.within ? traffic.within : traffic.between) += bytes;
    };
    const auto send_around = [&](const std::vector<int>& ring, std::int64_t bytes) {
      const auto me = static_cast<int>(std::ranges::find(ring, rank) - ring.begin());
      const int size = static_cast<int>(ring.size());
      if (size > 1) send(ring, (me + 1) % size, bytes);
    };
    const std::vector<int>& group = place.group(axis);
    const int n = place.size(axis), me = place.coordinate(axis);
    if (n == 1) continue;
    if (axis == Axis::pp) {
      const std::int64_t bytes = m * boundary_of(plan, m, chosen).bytes();
      if (me + 1 < n) send(group, me + 1, bytes);
      if (me > 0) send(group, me - 1, bytes);
      continue;
    }
    const FlatLayout layout = layout_of(plan, place, chosen);
    const TensorFootprint stage = stage_footprint(plan, place, place.only_stage(), m, chosen);
    if (axis == Axis::tp) {
      send_around(group, total(sent_along_tp(plan, place, layout, stage, m, chosen)));
    } else {
      const Predicted sharing = predict_sharers(plan, place, layout, stage, chosen);
      std::int64_t bytes = 0;
      for (const Operation operation : all_operations) bytes += *sharing.bytes_sent[operation];
      send_around(sharers(place, layout.shards()), bytes);
      send_around(replicas_of_shard(place, layout.shards()),
                  replica_sums(plan, place, layout).bytes_sent);
    }
  }
  return traffic;
}

/// Prints whether the vocabulary is padded and, on the modelled clock, where each axis's messages
/// travel on the cluster.
inline void print_axis_traffic(const Plan& plan, const Composition& chosen) {
  const std::string padding = padding_line(plan);
  if (plan.modelled || !padding.empty()) fmt::print("\n{}", padding);
  if (!plan.modelled) return;
  fmt::print("  sent per step, all ranks   within nodes   between nodes\n");
  for (const Axis axis : {Axis::tp, Axis::dp, Axis::pp}) {
    const AxisTraffic traffic = axis_traffic(plan, chosen, axis);
    fmt::print("  {:<2} {:>22} {:>14} {:>15}\n", name_of(axis),
               text_of_bytes(static_cast<double>(traffic.within + traffic.between)),
               text_of_bytes(static_cast<double>(traffic.within)),
               text_of_bytes(static_cast<double>(traffic.between)));
  }
}

}  // namespace lockstep
