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
// On the CPU a collective is a job of a worker thread, and a ring over N ranks is N - 1 messages
// or twice as many on each of them. The meta device moves no data, and in modelled time the whole
// outcome is known once every member has called the collective: it follows from the time at which
// each member called it, from the times at which their lanes are free, and from the algorithm. So
// no messages are sent. Each member hands in its call (MetaCollectives::issue), and the last of
// them evaluates the collective for all: it runs the algorithm once for each member over a
// StepRecorder, and a StepPlayer plays the recorded steps against one another. Times, bytes sent
// and trace events are exactly those of the messages.
//
// One difference remains: on the CPU a member may finish a broadcast, for example, before the last
// member has called it. Here no member does. MPI and NCCL permit either.

/// One member's call of a collective.
struct MetaCall {
  std::function<void(Peers&)> algorithm;  ///< must not touch data; another thread may call it
  Route route;  ///< what all members must agree on, and what error messages say of this call
  Picoseconds ready = 0;
  bool traced = false;  ///< whether `passages` of the outcome are wanted
};

/// The result of a collective for one member.
struct MetaOutcome {
  Picoseconds end = 0;
  std::optional<std::int64_t> bytes_sent;  ///< nothing if it sends no message
  // If it was traced: its messages, and when they held its lanes.
  std::vector<MetaStep> steps;
  std::vector<Passage> passages;
};

/// A call under way. Destroying it before the collective is done withdraws the call; then this
/// member's later calls fail.
class MetaPending {
 public:
  virtual ~MetaPending() = default;
  /// Blocks until the last member has called the collective, and returns this member's result.
  /// Throws RunError as Pending::wait does.
  virtual const MetaOutcome& wait() = 0;
  /// Whether wait() would return at once.
  virtual bool done() const = 0;
};

/// The collectives of one group, as one of its members calls them. Belongs to the rank's own
/// thread.
class MetaCollectives {
 public:
  virtual ~MetaCollectives() = default;
  /// Calls the group's next collective. Returns at once, unless this is the last call: then it
  /// evaluates the collective first.
  virtual std::unique_ptr<MetaPending> issue(MetaCall call) = 0;
};

}  // namespace lockstep
