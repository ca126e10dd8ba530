#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep {

/// A point in time or a duration, in whole picoseconds. An int64 spans 106 days.
using Picoseconds = std::int64_t;

/// Half of the largest int64: the sum of two such times does not overflow.
constexpr Picoseconds longest_time = 4'600'000'000'000'000'000;

/// The latest time on a modelled clock or in a trace, 46 days. The difference of two times fits in
/// Picoseconds, and so does a time minus such a difference.
constexpr Picoseconds latest_time = 4'000'000'000'000'000'000;

/// Converts seconds to picoseconds, rounded to nearest, and at most longest_time. No other code
/// does this conversion.
inline Picoseconds picoseconds(double seconds) {
  return std::llround(std::min(seconds * 1e12, static_cast<double>(longest_time)));
}
/// Returns `factor` times a time, rounded and bounded in the same way.
inline Picoseconds stretched(Picoseconds time, double factor) {
  return std::llround(
      std::min(static_cast<double>(time) * factor, static_cast<double>(longest_time)));
}
/// Adds two times. If the sum overflows, returns the limit of Picoseconds.
inline Picoseconds plus(Picoseconds a, Picoseconds b) {
  Picoseconds sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? std::numeric_limits<Picoseconds>::max() : std::numeric_limits<Picoseconds>::min();
}
inline double seconds(Picoseconds time) {
  return static_cast<double>(time) * 1e-12;
}

/// A kernel's main kind of work, which selects the cluster's rate for it.
enum class KernelKind : std::uint8_t { memory, product, attention };

/// The resources that an operation uses on a device.
struct Cost {
  double flops = 0;  ///< floating-point operations; a multiply-add is two
  double bytes = 0;  ///< memory read and written
  KernelKind kind = KernelKind::memory;
  /// The shape of a product, (m, k) by (k, n), or of attention: m queries, n keys, heads of size k.
  std::int64_t m = 0, n = 0, k = 0;
  bool operator==(const Cost&) const = default;
};

}  // namespace lockstep
