#pragma once

#include <cstdint>
#include <span>

#include "core/time/cluster.h"

namespace lockstep {

/// The measured time of a message.
struct MessageTime {
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// Fits α + β · bytes to the times, with neither coefficient negative.
///
/// Least squares with weights 1 / (α + β · bytes)², iteratively reweighted. This minimizes the
/// *relative* error, so microseconds at 0 B count as much as milliseconds at 16 MB. Small messages,
/// which are nearly all latency, then determine α, and large ones β. With equal weights the largest
/// message would determine both, and α would only reflect its noise. If the best α is negative, α
/// is 0 and β is refitted; if the best β is negative, the bandwidth is infinite.
///
/// Throws std::invalid_argument unless there are at least two different sizes, none negative, and
/// all times are positive.
Link fit_link(std::span<const MessageTime> times);

}  // namespace lockstep
