#include "viz/data/window/latency.h"

#include <algorithm>

namespace lockstep::viz {

void LatencyMeter::swapped(const Timeline& timeline, const TimeWindow& window,
                           std::int64_t steady_ns) {
  if (fresh_.empty()) return;
  const bool wall = timeline.run().clock == "wall";
  std::size_t kept = 0;
  for (const Timeline::FreshSpan& span : fresh_) {
    const auto end = static_cast<double>(span.end);
    const RankTimeline* rank = timeline.find_rank(span.rank);
    if (!wall || !rank) continue;
    if (end > window.end) {
      fresh_[kept++] = span;  // the window does not extend to this span yet
    } else if (end < window.begin) {
      ++not_shown_;
    } else {
      const std::int64_t ended = rank->clock_offset_ns + span.end / 1000;
      milliseconds_.push_back(static_cast<float>(static_cast<double>(steady_ns - ended) * 1e-6));
    }
  }
  fresh_.resize(kept);
}

void LatencyMeter::clear() {
  *this = {};
}

LatencyMeter::Summary LatencyMeter::summary() const {
  Summary summary{.count = static_cast<std::int64_t>(milliseconds_.size()),
                  .not_shown = not_shown_ + static_cast<std::int64_t>(fresh_.size())};
  if (milliseconds_.empty()) return summary;
  std::vector<float> sorted = milliseconds_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
    return static_cast<double>(sorted[index]);
  };
  summary.p50 = at(0.50);
  summary.p95 = at(0.95);
  summary.max = static_cast<double>(sorted.back());
  return summary;
}

}  // namespace lockstep::viz
