#pragma once

#include <vector>

#include "core/time/time.h"

namespace lockstep {

/// The time interval [start, end).
struct Interval {
  Picoseconds start = 0;
  Picoseconds end = 0;
  bool operator==(const Interval&) const = default;
};
/// Sorted intervals that neither overlap nor touch.
using Intervals = std::vector<Interval>;

}  // namespace lockstep
