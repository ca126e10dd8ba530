#pragma once

#include <memory>
#include <vector>

#include "core/comm/axis_groups.h"
#include "core/comm/group.h"
#include "core/plan/ranks_of_model.h"

namespace lockstep {

/// The two groups of hybrid sharding (PyTorch FSDP's HYBRID_SHARD: Zhao 2023, section 3.2.2). The
/// ranks of the dp axis form a grid. The ranks of a row, usually those of a node, share one copy of
/// the states (sharers). The ranks of a column have the same shard (replicas):
///
///                     shard 0    shard 1
///     row of node 0   dp rank 0  dp rank 1
///     row of node 1   dp rank 2  dp rank 3
///
/// ZeRO's own collectives run within a row. Once per step, each column sums its gradients. With N
/// ranks in a row, this all-reduce of 1/N of the gradients is all that a rank sends between nodes.
class HybridGroups {
 public:
  /// All ranks of the run must create their HybridGroups at the same point of the program. `size`,
  /// the number of sharers, must divide the size of the dp axis. If it is the whole axis, there is
  /// one row, and replicas() is null. The axis groups must outlive this object.
  HybridGroups(Endpoint endpoint, AxisGroups& groups, const Place& place, int size) {
    if (size == place.size(Axis::dp_cp)) {
      sharers_ = &groups[Axis::dp_cp];
      return;
    }
    const int channels = endpoint.transport.open_channels(2 * Group::channels_taken);
    row_ = std::make_unique<Group>(endpoint, lockstep::sharers(place, size), "sharers", channels);
    column_ = std::make_unique<Group>(endpoint, replicas_of_shard(place, size), "replicas",
                                      channels + Group::channels_taken);
    sharers_ = row_.get();
  }

  Group& sharers() { return *sharers_; }
  Group* replicas() { return column_.get(); }

 private:
  std::unique_ptr<Group> row_, column_;
  Group* sharers_ = nullptr;
};

}  // namespace lockstep
