#pragma once

#include <map>
#include <vector>

#include "core/kineto/import.h"

namespace lockstep::kineto {

/// The wait of a call for the member that started last.
struct LatePeer {
  int rank = -1;          ///< that member's rank
  Picoseconds start = 0;  ///< when it started; at most the end of the waiting call
};

/// The late peers of one rank's calls, by call. Calls that waited for nobody are absent.
using LatePeers = std::map<std::size_t, LatePeer>;

/// Finds, for each rank, the calls that waited for a member of their collective, or for the other
/// end of their message, to start. Leaves out waits that are too short for the clocks' accuracy.
std::vector<LatePeers> late_peers(const Import& import);

/// An interval in which a rank does nothing but wait for a call.
struct Wait {
  Interval time;
  std::size_t call = 0;  ///< in RankCalls::calls
  int late_rank = -1;    ///< the rank that has not started the call yet; -1 once all have
};

/// Attributes a rank's idle time to its calls. In each idle interval, the rank waits for one call
/// after another, in the order of their ends: the work after the interval may depend on any of
/// them. Nobody waits for sends. The wait for a call with a late peer consists of two: one until
/// that peer starts, and one until the call ends.
std::vector<Wait> waits_in(const Intervals& idle, const std::vector<Call>& calls,
                           const LatePeers& late);

}  // namespace lockstep::kineto
