#pragma once

#include "core/comm/axis_groups.h"

namespace lockstep {

/// What the code of a training step uses of the rank that runs it: a rank of the run, or one in a
/// dry run. The rank owns everything here.
struct RankContext {
  const Plan& plan;
  const Place& place;
  Endpoint endpoint;
  AxisGroups& groups;

  Device device() const { return endpoint.device; }
  Group& group(Axis axis) const { return groups[axis]; }
};

}  // namespace lockstep
