#pragma once

#include <cmath>
#include <cstdint>

namespace lockstep {

/// A point in time or a duration, in whole picoseconds. An int64 spans 106 days.
using Picoseconds = std::int64_t;

/// Converts seconds to picoseconds, rounded to nearest. No other code does this conversion.
inline Picoseconds picoseconds(double seconds) {
  return std::llround(seconds * 1e12);
}
inline double seconds(Picoseconds time) {
  return static_cast<double>(time) * 1e-12;
}

/// What a kernel mostly does, which decides at which of a cluster's rates it runs.
enum class KernelKind { memory, product, attention };

/// The resources that an operation uses on a device.
struct Cost {
  double flops = 0;  ///< floating-point operations; a multiply-add is two
  double bytes = 0;  ///< memory read and written
  KernelKind kind = KernelKind::memory;
  /// The shape of a product, (m, k) by (k, n), or of attention: m queries, n keys, heads of size k.
  std::int64_t m = 0, n = 0, k = 0;
};

}  // namespace lockstep
