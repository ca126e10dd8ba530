#pragma once

#include <cstdint>
#include <span>

#include "core/time/cluster.h"

namespace lockstep {

/// What a message of `bytes` took.
struct MessageTime {
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// The link whose α + β · bytes comes nearest to the times, neither negative.
///
/// Least squares with the weight 1 / (α + β · bytes)², found by weighting again and again: what
/// counts is the *relative* error, so microseconds at 0 B count as much as milliseconds at 16 MB.
/// Small messages, which are nearly all latency, then fix α (their relative errors cancel), and
/// large ones fix β. With equal weights the largest message would decide both, and α would be what
/// its noise leaves. Where the best α would be negative it is 0, and β is the best one beside that;
/// and the other way round, which is a link of infinite bandwidth.
///
/// Throws std::invalid_argument unless there are two different sizes, none negative, and all times
/// are positive.
Link fit_link(std::span<const MessageTime> times);

}  // namespace lockstep
