#pragma once

#include <functional>
#include <source_location>
#include <span>

#include "exercises/frame/ranks.h"

namespace lockstep::exercises {

/// What the frame needs of a World, and learners do not see.
struct Frame {
  static Group& group(World& world) { return world.ranks_; }
  static RankState& state(World& world) { return world.state_; }
};

/// Starts an operation of a rank's group on these numbers: `start` receives a view of those that
/// are read, and of those that are written. Both are copies (InFlight), in the GPU's memory if the
/// rank has a GPU. What has been written is copied back by the Work's wait(). If that is never
/// called, the state's `not_awaited` names the operation.
Work start_on(RankState& state, const Asked& asked, const HostNumbers& numbers,
              const std::function<Work(View read, View written)>& start);

}  // namespace lockstep::exercises
