#pragma once

#include <map>
#include <vector>

#include "viz/read/kineto/import.h"

namespace lockstep::kineto {

/// The member of a collective or a message that started last, so that the others waited for it.
struct LatePeer {
  int rank = -1;
  Picoseconds start = 0;  ///< when it started; at most the end of the waiting call
};

/// The late peers of one rank's calls, by call. Calls that waited for nobody are absent.
using LatePeers = std::map<std::size_t, LatePeer>;

/// Finds, for each rank, the calls that waited for a member of their collective, or for the other
/// end of their message, to start. Omits waits that are too short for the clocks' accuracy.
std::vector<LatePeers> late_peers(const Import& import);

/// An interval in which a rank does nothing but wait for a call.
struct Wait {
  Interval time;
  std::size_t call = 0;  ///< in RankCalls::calls
  int late_rank = -1;    ///< the rank that has not started the call yet; -1 once all have
};

/// Attributes a rank's idle time to its calls. In each idle interval, the rank waits for one call
/// after another, in the order of their ends, because the work after the interval may depend on any
/// of them. It does not wait for sends. If a call has a late peer, the wait is split at the time
/// when that peer starts.
std::vector<Wait> waits_in(const Intervals& idle, const std::vector<Call>& calls,
                           const LatePeers& late);

}  // namespace lockstep::kineto
