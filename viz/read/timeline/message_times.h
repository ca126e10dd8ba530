#pragma once

#include <map>
#include <vector>

#include "viz/read/timeline/analysis.h"

namespace lockstep {

/// The times during which messages move on one of a rank's lanes.
struct LaneTraffic {
  Intervals moving;     ///< bytes are on the lane
  Intervals in_flight;  ///< messages to the lane are in flight
  Intervals arriving;   ///< the parts of in_flight during which bytes occupy the lane
};

/// Returns the traffic of a step's window on all lanes but the compute lanes: for each rank in
/// timeline order, by lane.
std::vector<std::map<int, LaneTraffic>> lane_traffic(const Timeline& timeline,
                                                     const Interval& window);

}  // namespace lockstep
