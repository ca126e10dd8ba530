#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

/// The link with the fewest segments whose times for the measured sizes are each within `bound` of
/// the measured ones, as a share of these (0.1 is 10 %). Within a segment, the α and β (neither
/// negative) of the least largest relative error. A segment begins at the first size that the one
/// before it can't take in. One size alone can always be met (it keeps the α of the segment before
/// it), so any bound can be kept. Sizes in between are not measured: no bound is known for them.
///
/// Throws std::invalid_argument as fit_link does, if a size occurs twice, and for a negative bound.
Link fit_segments(std::vector<MessageTime> times, double bound);

/// α + β · bytes, in seconds.
double time_of_message(const Link& link, std::int64_t bytes);
/// The largest relative error of the link's times: of |fitted / measured - 1|.
double largest_error(const Link& link, std::span<const MessageTime> times);

}  // namespace lockstep
