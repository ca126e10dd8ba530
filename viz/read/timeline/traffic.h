#pragma once

#include <cstdint>
#include <vector>

#include "viz/read/timeline/timeline.h"

namespace lockstep {

/// The messages of one operation that one rank sent to another in a step.
struct PeerTraffic {
  int from = 0;
  int to = -1;           ///< -1 if the trace does not say
  NameId group = 0;      ///< the communicator's name; 0 if the trace does not say
  NameId operation = 0;  ///< such as "all_reduce" or "send"
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
  bool operator==(const PeerTraffic&) const = default;
};

/// Returns the traffic of a step, ordered by sender, receiver, group and operation. The bytes of a
/// sender add up to bytes_sent(). The trace shows no messages within a library's collective (NCCL,
/// MPI).
std::vector<PeerTraffic> step_traffic(const Timeline& timeline, int step);

}  // namespace lockstep
