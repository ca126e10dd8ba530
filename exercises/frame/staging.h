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

/// Numbers in host memory that an operation reads, and numbers into which it writes. Either may be
/// empty, and they may be the same.
struct HostNumbers {
  std::span<const float> read;
  std::span<float> written;
};

/// An operation that the answer has asked for: "send", at the line `where`.
struct Asked {
  const char* operation;
  std::source_location where;
};

/// Starts an operation of a rank's group on these numbers: `start` receives a view of those that
/// are read, and of those that are written. If the rank has a GPU, both are in the GPU's memory:
/// what is read is copied there first, and what is written is copied back by the Work's wait(). If
/// that is never called, the state's `not_awaited` names the operation.
Work start_on(RankState& state, const Asked& asked, HostNumbers numbers,
              const std::function<Work(View read, View written)>& start);

}  // namespace lockstep::exercises
