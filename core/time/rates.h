#pragma once

#include <cstdint>
#include <vector>

#include "core/time/time.h"

namespace lockstep {

/// FLOP/s by shape, measured for all combinations of a few sizes.
struct RateTable {
  std::vector<std::int64_t> m, n, k;  ///< ascending, at least one each
  /// The rates of the first m come first, and among them those of the first n.
  std::vector<double> flops;

  /// Returns the rate of a kernel of this shape. Between the measured sizes, the logarithm of the
  /// rate is linear in the logarithm of each size; beyond them, the rate is that of the nearest
  /// size.
  double at(const Cost& cost) const;
  bool operator==(const RateTable&) const = default;
};

/// The measured speed of a rank's kernels, by kind and shape. Small and thin products run far below
/// a processor's peak, so a modelled clock that knows only the peak ranks configurations wrongly.
struct Rates {
  RateTable products, attention;
  double memory_share = 1;  ///< of the bandwidth, reached by kernels that only move memory
  bool operator==(const Rates&) const = default;
};

}  // namespace lockstep
