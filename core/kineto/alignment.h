#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/kineto/matching.h"

namespace lockstep::kineto {

/// Maps times of one rank's clock to those of the reference, the first rank: t + offset + drift ·
/// t.
struct ClockCorrection {
  double offset = 0;     ///< in picoseconds
  double drift = 0;      ///< seconds per second
  bool aligned = false;  ///< whether collectives join this rank to the reference
  Picoseconds apply(Picoseconds time) const;
};

/// The clocks of several ranks, aligned on the ends of the collectives that they have in common.
///
/// All members leave a collective such as an all-reduce at nearly the same time, so the differences
/// between their ends show how far their clocks are apart. Starts show nothing about clocks: a rank
/// may be late.
struct Alignment {
  std::vector<ClockCorrection> ranks;  ///< parallel to the traces
  std::size_t collectives = 0;         ///< how many were matched and used
  std::size_t messages = 0;            ///< those used to join ranks that no collective joins
  Picoseconds largest_spread = 0;      ///< how far the ends of a collective lie apart afterwards
  Picoseconds median_spread = 0;
  /// How well the clocks are known, at any time in the traces: the largest spread plus the median
  /// one, or, if that is more, what the pairs of ranks that join a rank to the reference leave
  /// unknown together; a pair does so with few collectives, or far from them. With fewer than three
  /// collectives, it is at least the duration of the shortest of them: nothing else bounds the
  /// error.
  Picoseconds residual = 0;
  bool corrected = false;  ///< whether clocks differed by more than the residual
};

Alignment align_clocks(const std::vector<RankCalls>& ranks, const std::vector<Match>& matches);

}  // namespace lockstep::kineto
