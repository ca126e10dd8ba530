#include "core/comm/axis_groups.h"

namespace lockstep {

AxisGroups::AxisGroups(Endpoint endpoint, const Place& place, Group& world, Sharing sharing)
    : endpoint_(endpoint),
      place_(place),
      world_(world),
      sharing_(sharing),
      channels_(endpoint.transport.open_channels(all_axes_count * Group::channels_taken)) {}

Group& AxisGroups::operator[](Axis axis) {
  if (sharing_ == Sharing::same_ranks) {
    if (place_.size(axis) == world_.size()) return world_;
    if (axis == Axis::dp_cp && size(Axis::cp) == 1) axis = Axis::dp;
    if (axis == Axis::dp_cp && size(Axis::dp) == 1) axis = Axis::cp;
  }
  const auto i = static_cast<std::size_t>(axis);
  if (!groups_[i])
    groups_[i] = std::make_unique<Group>(endpoint_, place_.group(axis), name_of(axis),
                                         channels_ + static_cast<int>(i) * Group::channels_taken);
  return *groups_[i];
}

}  // namespace lockstep
