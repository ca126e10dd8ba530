#pragma once

#include <algorithm>
#include <cstdint>

#include "core/time/cluster.h"

namespace lockstep {

/// The time during which a message holds a lane.
struct Passage {
  Picoseconds start = 0;
  Picoseconds end = 0;
  bool operator==(const Passage&) const = default;
};

// How a message moves in modelled time (DESIGN §4, rule 3). Channel applies these two functions to
// the messages that it sends, StepPlayer to those that it only evaluates.

/// The sender's lane: the message starts when its data and the lane are ready, and holds the lane
/// for β · bytes. Updates `lane_free`.
inline Passage depart(const Cluster& cluster, int from, int to, std::int64_t bytes,
                      Picoseconds ready, Picoseconds& lane_free) {
  const Picoseconds start = std::max(ready, lane_free);
  lane_free = start + cluster.transfer(from, to, bytes);
  return {start, lane_free};
}

/// The receiver's lane: the message arrives α + β · bytes after its departure, but no sooner than
/// β · bytes after the lane was free. Updates `lane_free`.
inline Passage arrive(const Cluster& cluster, int from, int to, std::int64_t bytes,
                      Picoseconds departure, Picoseconds& lane_free) {
  const Picoseconds held = cluster.transfer(from, to, bytes);
  lane_free = std::max(departure + held + cluster.latency(from, to), lane_free + held);
  return {lane_free - held, lane_free};
}

}  // namespace lockstep
