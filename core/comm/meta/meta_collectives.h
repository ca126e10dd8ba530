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
// On the CPU a collective is a job of a worker thread, which exchanges N - 1 or 2(N - 1) messages
// in a ring of N ranks. The meta device moves no data. In modelled time, the outcome depends only
// on the algorithm, the times of the members' calls, and the times at which their lanes become
// free. The members therefore send no messages. Each member submits its call
// (MetaCollectives::issue), and the last member to submit one evaluates the collective for all
// members. It runs the algorithm once per member with a StepRecorder, and a StepPlayer then
// simulates all recorded steps together. Times, byte counts and trace events are exactly those that
// sending the messages would have produced.
//
// One difference remains: on the CPU a member may finish a broadcast, for example, before the last
// member has called it. On the meta device no member finishes that early. MPI and NCCL permit both
// behaviours.

/// One member's call of a collective operation.
struct MetaCall {
  std::function<void(Peers&)> algorithm;  ///< accesses no data; may run on any thread
  Route route;  ///< for checking that the members agree, and for error messages
  Picoseconds ready = 0;
  bool traced = false;  ///< whether the outcome must include steps and passages
  /// With shared links: called with the member's end once it is known; may be empty.
  std::function<void(Picoseconds)> ended{};
};

/// The result of a collective for one member.
struct MetaOutcome {
  Picoseconds end = 0;
  std::optional<std::int64_t> bytes_sent;  ///< empty if the member sends no message
  // If traced: this member's messages, and the intervals during which they occupied its lanes.
  std::vector<MetaStep> steps;
  std::vector<Passage> passages;
};

/// A call in flight. If the collective is not done, the destructor withdraws the call, and all
/// later calls by this member fail.
class MetaPending {
 public:
  virtual ~MetaPending() = default;
  /// Blocks until the last member has called the collective, and returns this member's result.
  /// Throws RunError as Pending::wait() does.
  virtual const MetaOutcome& wait() = 0;
  /// Whether wait() would return immediately.
  virtual bool done() const = 0;
};

/// One member's handle to its group's collectives. Belongs to the rank's own thread.
class MetaCollectives {
 public:
  virtual ~MetaCollectives() = default;
  /// Calls the group's next collective. Returns immediately, except for the last member to call,
  /// which first evaluates the collective.
  virtual std::unique_ptr<MetaPending> issue(MetaCall call) = 0;
};

}  // namespace lockstep
