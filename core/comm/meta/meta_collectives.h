#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/comm/meta/meta_steps.h"
#include "core/comm/transport/route.h"

namespace lockstep {

// Collectives between ranks on the meta device.
//
// On the CPU a collective is a job of a worker thread, and a ring over N ranks takes N - 1 messages
// per rank, or twice as many. The meta device moves no data, and in modelled time the outcome is
// known once every member has called the collective: it follows from the time of each call, the
// times at which the lanes become free, and the algorithm. So no messages are sent. Each member
// submits its call (MetaCollectives::issue), and the last to do so evaluates the collective for
// all: it runs the algorithm once per member over a StepRecorder, and a StepPlayer plays the
// recorded steps against one another. Times, byte counts and trace events are exactly as if the
// messages had been sent.
//
// One difference remains: on the CPU a member may finish, say, a broadcast before the last member
// has called it. Here none does. MPI and NCCL permit either.

/// One member's call to a collective.
struct MetaCall {
  std::function<void(Peers&)> algorithm;  ///< must not touch data; another thread may call it
  Route route;  ///< used to check that the members agree, and in error messages
  Picoseconds ready = 0;
  bool traced = false;  ///< whether the outcome needs `passages`
};

/// One member's result of a collective.
struct MetaOutcome {
  Picoseconds end = 0;
  std::optional<std::int64_t> bytes_sent;  ///< empty if it sends no message
  // If traced: this member's messages, and when they occupied its lanes.
  std::vector<MetaStep> steps;
  std::vector<Passage> passages;
};

/// A call in flight. Destroying it before the collective is done withdraws the call; all later
/// calls of this member then fail.
class MetaPending {
 public:
  virtual ~MetaPending() = default;
  /// Blocks until the last member has called the collective, and returns this member's result.
  /// Throws RunError as Pending::wait does.
  virtual const MetaOutcome& wait() = 0;
  /// Whether wait() would return at once.
  virtual bool done() const = 0;
};

/// One member's handle to its group's collectives. Belongs to the rank's own thread.
class MetaCollectives {
 public:
  virtual ~MetaCollectives() = default;
  /// Calls the group's next collective. Returns immediately, except in the last member to call,
  /// which first evaluates the collective.
  virtual std::unique_ptr<MetaPending> issue(MetaCall call) = 0;
};

}  // namespace lockstep
