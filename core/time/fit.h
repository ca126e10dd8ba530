#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/time/cluster.h"

namespace lockstep {

/// A message's size and measured time.
struct MessageTime {
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// Fits α + β · bytes to the times, with neither coefficient negative.
///
/// Uses least squares with weights 1 / (α + β · bytes)², iteratively reweighted. This minimizes the
/// *relative* error, so microseconds at 0 B count as much as milliseconds at 16 MB. Small messages,
/// whose time is almost entirely latency, therefore determine α, and large messages determine β.
/// With equal weights the largest message would determine both coefficients, and α would only
/// reflect the noise in that message's time. If the best α is negative, α is 0 and β is refitted;
/// if the best β is negative, the bandwidth is infinite.
///
/// Throws std::invalid_argument unless there are at least two different sizes, none negative, and
/// all times are positive.
Link fit_link(std::span<const MessageTime> times);

/// Returns the link that has the fewest segments among those with a relative error of at most
/// `bound` (0.1 is 10 %) at every measured size. The errors at other sizes are unknown.
///
/// A segment's α and β (neither negative) minimize its largest relative error. Segments are built
/// from the smallest size upwards: each is extended to larger sizes until its error would exceed
/// the bound. A segment with only one size has no error, so any bound can be met. Such a segment's
/// α is the previous segment's α, or the measured time if that is less.
///
/// Throws std::invalid_argument like fit_link, and also if a size occurs twice or the bound is
/// negative.
Link fit_segments(std::vector<MessageTime> times, double bound);

/// Returns the time of a message on `link`, α + β · bytes, in seconds.
double time_of_message(const Link& link, std::int64_t bytes);
/// Returns the largest relative error of the link's times, |fitted / measured - 1|.
double largest_error(const Link& link, std::span<const MessageTime> times);

}  // namespace lockstep
