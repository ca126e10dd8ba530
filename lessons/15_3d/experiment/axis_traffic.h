#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/available_memory.h"
#include "core/plan/ranks_of_model.h"
#include "lessons/06_tensor_parallel/experiment/slices_grid.h"
#include "lessons/15_3d/prediction.h"

namespace lockstep {

/// Bytes that ranks send per step, by the kind of link.
class AxisTraffic {
 public:
  explicit AxisTraffic(const Cluster& cluster) : cluster_(cluster) {}

  void send(int from, int to, std::int64_t bytes) {
    (&cluster_.link(from, to) == &cluster_.within ? within : between) += bytes;
  }
  /// `rank` sends to the next rank of a ring.
  void send_around(int rank, const std::vector<int>& ring, std::int64_t bytes) {
    const auto me = static_cast<std::size_t>(std::ranges::find(ring, rank) - ring.begin());
    if (ring.size() > 1) send(rank, ring[(me + 1) % ring.size()], bytes);
  }

  std::int64_t within = 0;   ///< to ranks of the same node
  std::int64_t between = 0;  ///< to ranks of other nodes

 private:
  const Cluster& cluster_;
};

/// Returns the rank that holds a stage in the pipeline of `rank`; -1 if there is no such stage.
inline int rank_of(const Plan& plan, int stage, int rank) {
  return stage < 0 || stage >= plan.stages() ? -1 : plan.rank_holding(stage, rank);
}

/// Returns the predicted traffic of the layers (tp), the stages (pp) or the replicas (dp_cp). In a
/// ring, each rank sends all its bytes to the next rank. A stage sends to the stage after it and to
/// the stage before it, unless they are on the same rank. Blocks that are recomputed run their
/// forward pass twice (`forwards`).
inline AxisTraffic axis_traffic(const Plan& plan, const Composition& chosen, Axis axis,
                                int forwards = 1) {
  AxisTraffic traffic{plan.modelled->cluster};
  const int m = plan.batch.microbatches;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const Place place = plan.place(rank);
    const std::vector<int>& group = place.group(axis);
    if (group.size() == 1) continue;
    if (axis == Axis::pp) {
      const std::int64_t bytes = m * boundary_of(plan, m, chosen).bytes();
      for (const int stage : place.stages)
        for (const int other : {stage - 1, stage + 1})
          if (const int to = rank_of(plan, other, rank); to >= 0 && to != rank)
            traffic.send(rank, to, bytes);
      continue;
    }
    if (axis == Axis::tp) traffic.send_around(rank, group, norm_sends(plan, place, chosen));
    for (const int stage : place.stages) {
      const TensorFootprint memory = stage_footprint(plan, place, stage, m, chosen);
      if (axis == Axis::tp) {
        const BytesSent sent = sent_along_tp(plan, place, memory, m, chosen, forwards);
        traffic.send_around(rank, group, total(sent));
        continue;
      }
      const FlatLayout layout = layout_of(plan, place, stage, chosen);
      const Predicted sharing = predict_sharers(plan, place, layout, memory, chosen);
      std::int64_t bytes = 0;
      for (const Operation operation : all_operations) bytes += *sharing.bytes_sent[operation];
      traffic.send_around(rank, sharers(place, layout.shards()), bytes);
      traffic.send_around(rank, replicas_of_shard(place, layout.shards()),
                          replica_sums(plan, place, layout).bytes_sent);
    }
  }
  return traffic;
}

/// Returns the columns of one row of a table: all bytes, those within and those between nodes.
inline std::string columns_of(const AxisTraffic& traffic, int width) {
  return fmt::format("{:>{}} {:>14} {:>15}",
                     text_of_bytes(static_cast<double>(traffic.within + traffic.between)), width,
                     text_of_bytes(static_cast<double>(traffic.within)),
                     text_of_bytes(static_cast<double>(traffic.between)));
}

/// Prints whether the vocabulary is padded and, on the modelled clock, where each axis's messages
/// travel on the cluster.
inline void print_axis_traffic(const Plan& plan, const Composition& chosen) {
  const std::string padding = padding_line(plan);
  if (plan.modelled || !padding.empty()) fmt::print("\n{}", padding);
  if (!plan.modelled) return;
  fmt::print("  sent per step, all ranks   within nodes   between nodes\n");
  for (const Axis axis : {Axis::tp, Axis::dp, Axis::pp})
    fmt::print("  {:<2} {}\n", name_of(axis), columns_of(axis_traffic(plan, chosen, axis), 22));
}

}  // namespace lockstep
