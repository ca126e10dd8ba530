#pragma once

#include <functional>
#include <source_location>
#include <span>

#include "exercises/frame/ranks.h"

namespace lockstep::exercises {

/// The functions of a World that the frame needs and learners do not see.
struct Frame {
  static Group& group(World& world) { return world.ranks_; }
  static RankState& state(World& world) { return world.state_; }
};

/// Starts an operation of a rank's group on these numbers: `start` receives a view of the numbers
/// to read and a view of the numbers to write. Both are copies (InFlight), in the GPU's memory if
/// the rank has a GPU. The Work's wait() copies the written numbers back. If wait() is never
/// called, the state's `not_awaited` names the operation.
Work start_on(RankState& state, const Asked& asked, const HostNumbers& numbers,
              const std::function<lockstep::Work(View read, View written)>& start);

}  // namespace lockstep::exercises
