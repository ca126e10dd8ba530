#pragma once

#include <algorithm>
#include <cstdint>

#include "core/time/cluster.h"

namespace lockstep {

/// The interval during which a message occupies a lane.
struct Passage {
  Picoseconds start = 0;
  Picoseconds end = 0;
  bool operator==(const Passage&) const = default;
};

/// A message on a cluster with shared links (SharedNetwork).
struct OutgoingMessage {
  int to = 0;  ///< a rank
  std::int64_t bytes = 0;
  Picoseconds ready = 0;    ///< when its data is ready
  Picoseconds latency = 0;  ///< from the end of the transfer to the arrival
  double load = 1;  ///< multiplies its bytes on shared links (a Scenario's change to an axis)
};

// Timing of messages on the modelled clock (core/time/README.md, rule 3). Channel uses
// these two functions for messages that it sends, and StepPlayer (core/comm/meta/meta_steps.h) uses
// them for messages that it only evaluates.

/// Computes when a message occupies its sender's lane. The message starts when its data and the
/// lane are ready, and occupies the lane for β · bytes. Updates `lane_free`.
inline Passage depart(const Cluster& cluster, int from, int to, std::int64_t bytes,
                      Picoseconds ready, Picoseconds& lane_free) {
  const Picoseconds start = std::max(ready, lane_free);
  lane_free = cluster.after(start, cluster.transfer(from, to, bytes));
  return {start, lane_free};
}

/// Computes when a message occupies its receiver's lane. The message arrives α + β · bytes after
/// its departure, but no sooner than β · bytes after the lane became free. Updates `lane_free`.
inline Passage arrive(const Cluster& cluster, int from, int to, std::int64_t bytes,
                      Picoseconds departure, Picoseconds& lane_free) {
  const Picoseconds held = cluster.transfer(from, to, bytes);
  lane_free =
      std::max(cluster.after(cluster.after(departure, held), cluster.latency(from, to, bytes)),
               cluster.after(lane_free, held));
  return {lane_free - held, lane_free};
}

}  // namespace lockstep
