#pragma once

#include <array>
#include <memory>

#include "core/comm/group.h"
#include "core/plan/plan.h"

namespace lockstep {

/// One rank's process groups: along each axis of the mesh, the ranks that differ from this rank on
/// that axis only. These are the rank's replicas along dp, the stages of its pipeline along pp, and
/// the ranks that share its layers along tp. dp_cp is the same group as dp or cp if the other axis
/// has one rank.
///
/// MPI_Comm_split and ncclCommSplit would split off the same groups, with the coordinates on all
/// other axes as the colour. Here no rank asks the others for their colour, because the mesh knows
/// all members: MPI's native collectives call MPI_Comm_create_group (mpi/mpi_native.cpp), and
/// NCCL's communicators are created by ncclCommInitRankConfig (cuda/nccl_communicator.cpp).
class AxisGroups {
 public:
  /// Whether axes with the same ranks share one group.
  enum class Sharing { same_ranks, none };
  /// `place` and `world`, the group of all ranks, must outlive this object. All ranks of the run
  /// must create their AxisGroups at the same point of the program.
  AxisGroups(Endpoint endpoint, const Place& place, Group& world,
             Sharing sharing = Sharing::same_ranks);

  /// Returns the number of ranks along the axis, without creating their group.
  int size(Axis axis) const { return place_.size(axis); }
  /// Returns the group, whose members are in order of their coordinate. The first call creates the
  /// group; all members must make this call at the same point of the program.
  Group& operator[](Axis axis);

 private:
  Endpoint endpoint_;
  const Place& place_;
  Group& world_;
  Sharing sharing_;
  int channels_;  ///< the first channel of the groups
  std::array<std::unique_ptr<Group>, all_axes_count> groups_;
};

}  // namespace lockstep
