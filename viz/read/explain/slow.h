#pragma once

#include <map>
#include <set>
#include <vector>

#include "core/time/time.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep {

/// The time for which a rank or a stage computes in a step, compared with its peers: ranks that
/// hold the same stages, or the other stages.
struct Slow {
  int number = 0;
  Picoseconds compute = 0;
  Picoseconds usual = 0;    ///< the median of the peers
  Picoseconds slowest = 0;  ///< the largest of the peers
  std::size_t peers = 0;
};

/// Returns the median; of an even number of values, the lower one.
Picoseconds lower_median(std::vector<Picoseconds> values);

/// Compares each element of `compute` with the others that have the same role. Those without peers
/// are left out.
std::vector<Slow> compared_with_peers(const std::vector<Picoseconds>& compute,
                                      const std::vector<std::set<int>>& roles);

/// Returns how long ranks waited for each other rank in a step, by the rank that the waits name.
std::map<int, Picoseconds> waited_for(const Timeline& timeline, int step);

}  // namespace lockstep
