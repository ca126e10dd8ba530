#pragma once

#include <vector>

#include "viz/read/kineto/matching.h"

namespace lockstep::kineto {

/// Maps times of one rank's clock to the reference, which is the first rank's clock:
/// t + offset + drift · t.
struct ClockCorrection {
  double offset = 0;     ///< picoseconds
  double drift = 0;      ///< seconds per second
  bool aligned = false;  ///< whether matches join this rank to the reference
  Picoseconds apply(Picoseconds time) const;
};

/// The clocks of several ranks, aligned on the ends of the collectives that they have in common.
///
/// All members leave a collective such as an all-reduce at nearly the same time, so the differences
/// between their ends show how far their clocks are apart. Starts show nothing about clocks,
/// because a rank may be late.
struct Alignment {
  std::vector<ClockCorrection> ranks;  ///< parallel to the traces
  std::size_t collectives = 0;         ///< number of collectives used
  std::size_t messages = 0;        ///< number of messages used, between ranks without collectives
  Picoseconds largest_spread = 0;  ///< between the ends of one match, after the correction
  Picoseconds median_spread = 0;
  /// Bounds the error of the clocks at any time in the traces. It is the largest spread plus the
  /// median spread or, if that is more, the accumulated uncertainty of the pairs of ranks that join
  /// a rank to the reference; a pair is uncertain if it has few collectives, and at times far from
  /// them. With fewer than three collectives, it is at least the duration of the shortest one,
  /// because nothing else bounds the error.
  Picoseconds residual = 0;
  bool corrected = false;  ///< whether clocks differed by more than the residual

  /// Returns whether any rank is joined to the reference.
  bool joins_any() const;
};

/// Aligns the clocks of ranks on those matches whose members end together. Corrects nothing if the
/// clocks already agree within the residual.
Alignment align_clocks(const std::vector<RankCalls>& ranks, const std::vector<Match>& matches);

}  // namespace lockstep::kineto
