#pragma once

#include "core/comm/axis_groups.h"

namespace lockstep {

/// The parts of a rank that the code of a training step uses, in a run or in a dry run. The rank
/// owns everything here.
struct RankContext {
  const Plan& plan;
  const Place& place;
  Endpoint endpoint;
  AxisGroups& groups;

  Device device() const { return endpoint.device; }
  Group& group(Axis axis) const { return groups[axis]; }
};

}  // namespace lockstep
