#pragma once

#include <cmath>
#include <cstdint>

namespace lockstep {

/// A point on a clock, or a length of time, in whole picoseconds. An int64 of them spans 106 days.
using Picoseconds = std::int64_t;

/// The one place where seconds become picoseconds: rounded to the nearest, once.
inline Picoseconds picoseconds(double seconds) {
  return std::llround(seconds * 1e12);
}
inline double seconds(Picoseconds time) {
  return static_cast<double>(time) * 1e-12;
}

/// What a piece of work asks of a device.
struct Cost {
  double flops = 0;  ///< floating-point operations; a multiply-add is two
  double bytes = 0;  ///< memory read and written
};

}  // namespace lockstep
